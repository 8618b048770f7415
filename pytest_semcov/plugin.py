"""The pytest plugin: hooks only, each a few lines."""

from __future__ import annotations
