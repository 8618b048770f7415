"""``python -m pytest_semcov.cli``: the command where it is not installed."""

import sys

from pytest_semcov.cli import main

sys.exit(main())
