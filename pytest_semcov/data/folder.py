"""A folder of images, with class folders or without, with a metadata file or without."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from pytest_semcov.data.decoding import DEFAULT_RULE, DecodingRule, FileSource
from pytest_semcov.data.exported import FOLDER_FIELDS, read_provenance, restored
from pytest_semcov.data.metadata import (
    METADATA_FILES,
    GroupRule,
    Row,
    contained,
    label_texts,
    object_boxes,
    portable_name,
    read_table,
    shown,
    warn_of_boxes,
    with_groups,
)
from pytest_semcov.data.samples import Provenance, Sample, SampleDataset
from pytest_semcov.errors import ArgumentError, DatasetError

IMAGE_EXTENSIONS = frozenset(
    {
        *(".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".bmp", ".dib", ".gif", ".webp", ".tif", ".tiff"),
        *(".pbm", ".pgm", ".pnm", ".ppm", ".j2k", ".jp2", ".avif"),
    }
)
_INCIDENTAL_FILES = ("thumbs.db", "desktop.ini")
_EXPECTED = (
    "ImageFolder takes a folder of images, of class folders (day/…, night/…), "
    "or of images with metadata.csv, metadata.jsonl or metadata.parquet"
)


class ImageFolder(SampleDataset):
    """The images in a folder. Nothing is read before it is first used.

    **Which files.** Files with an image extension, at any depth, sorted by id; hidden files and folders
    (name starts with a dot) and ``__MACOSX`` are passed over; symbolic links are followed. Everything
    else is left alone and listed in :attr:`ignored`. A file with an image extension that is no image is
    a sample, and an error when it is decoded.

    **Labels.** In class folders the folder directly above the image names the class: ``train/day/1.jpg``
    is ``day``. A folder at the same depth that holds nothing (but a README, Thumbs.db or desktop.ini) is
    a class with 0 images. With fewer than two classes there are no labels; images that lie directly in
    the data set's folder never have one.

    **Metadata.** A ``metadata.csv``, ``.jsonl`` or ``.parquet``, here or in a folder below, describes the
    images beside and below it by the column ``file_name``. ``label`` is the label, ``objects`` holds boxes
    (``{"bbox": [[x, y, width, height], ...], "categories": [...]}``, pixels of the upright image), further
    columns become the samples' metadata. A row without its file is an error; an image without a row stays
    a sample, without label or metadata, and is listed in :attr:`unlisted`. A file that is named
    there may have any extension.

    **Synthetic images** that this package exported come back as they were: id, label, boxes, group,
    metadata and provenance are those of the exported sample.

    Parameters
    ----------
    path
        The folder; ``~`` is the home folder.
    labels
        ``"auto"``: from the metadata if there is a column ``label``, else from class folders;
        ``"folder"``, ``"metadata"``, or ``None`` for no labels.
    group
        ``None``; ``"folder"``: the path of the folder above the image; any other text: a metadata column;
        or a function from sample to group.
    rule
        How images are decoded.
    id_prefix
        Put before the relative POSIX path to form the id, e.g. ``"vendor/"``.
    recursive
        False: only images directly in the folder.
    extensions
        Lower-case extensions, with dot, of image files.
    provenance
        Where to look for the provenance of synthetic images: ``"metadata"``, or ``"files"``: inside PNG
        and JPEG files as well, for exported images that were moved away from their metadata. That opens
        every image that has none in the metadata.
    name
        Name in reports; by default that of the folder.

    Raises
    ------
    DatasetError
        On first use: no such folder, no images and no classes, a malformed metadata file, labels of mixed
        types.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        labels: str | None = "auto",
        group: GroupRule = None,
        rule: DecodingRule = DEFAULT_RULE,
        id_prefix: str = "",
        recursive: bool = True,
        extensions: Collection[str] = IMAGE_EXTENSIONS,
        provenance: str = "metadata",
        name: str | None = None,
    ) -> None:
        if labels not in ("auto", "folder", "metadata", None):
            raise ArgumentError(f"labels={labels!r}: need 'auto', 'folder', 'metadata' or None")
        if provenance not in ("metadata", "files"):
            raise ArgumentError(f"provenance={provenance!r}: need 'metadata' or 'files'")
        self.path = Path(path).expanduser().absolute()
        super().__init__((), name=name or self.path.name)
        self._known = None
        self._label_rule = labels
        self._group_rule = group
        self._rule = rule
        self._id_prefix = id_prefix
        self._recursive = recursive
        self._extensions = frozenset(extensions)
        self._look_inside = provenance == "files"
        self._ignored: tuple[str, ...] = ()
        self._unlisted: tuple[str, ...] = ()

    @property
    def ignored(self) -> tuple[str, ...]:
        """Files without an image extension (relative paths), hidden ones excepted."""
        _ = self.samples  # read on first use
        return self._ignored

    @property
    def unlisted(self) -> tuple[str, ...]:
        """Ids of images that no row of a metadata file names, where there is such a file."""
        _ = self.samples  # read on first use
        return self._unlisted

    def _read(self) -> Sequence[Sample]:
        tree = self._scan()
        rows = _rows_by_image(self.path, tree)
        if not tree.images and not tree.empty_folders:
            others = f"; it has {shown(sorted(tree.ignored))}" if tree.ignored else ""
            raise DatasetError(f"no images in {self.path}{others}. {_EXPECTED}")
        from_metadata = self._label_rule == "metadata" or (
            self._label_rule == "auto" and any("label" in row.values for row in rows.values())
        )
        paths = sorted(tree.images)
        if from_metadata:
            labels = _metadata_labels(self.path, paths, rows)
        elif self._label_rule is None:
            labels = [None] * len(paths)
        else:
            self._classes, labels = _folder_labels(paths, tree)

        samples: list[Sample] = []
        boxes_left_out: dict[str, int] = {}
        for path, label in zip(paths, labels, strict=True):
            row = rows.get(path)
            taken = {"file_name", "objects", "label"} if from_metadata else {"file_name", "objects"}
            sample = Sample(self._id_prefix + path, FileSource(tree.images[path], self._rule), label)
            if row is not None:
                boxes, left_out = object_boxes(row.values.get("objects"), where=row.where)
                if left_out:
                    boxes_left_out[sample.id] = left_out
                columns = {name: value for name, value in row.values.items() if name not in taken}
                sample = restored(
                    replace(sample, boxes=boxes), columns, FOLDER_FIELDS, id_prefix=self._id_prefix
                )
            if self._look_inside and sample.provenance is None:
                sample = replace(sample, provenance=_provenance_inside(tree.images[path]))
            if self._group_rule == "folder":
                sample = replace(sample, group=_folder_of(path) or None)
            samples.append(sample)
        warn_of_boxes(self.name, boxes_left_out)
        self._ignored = tuple(sorted(tree.ignored))
        if tree.tables:
            self._unlisted = tuple(self._id_prefix + path for path in paths if path not in rows)
        return with_groups(samples, None if self._group_rule == "folder" else self._group_rule)

    def _scan(self) -> _Tree:
        if not self.path.is_dir():
            what = "is not a folder" if self.path.exists() else "does not exist"
            raise DatasetError(f"{self.path} {what}. {_EXPECTED}")
        tree = _Tree()
        self._scan_folder(self.path, "", tree, above=())
        return tree

    def _scan_folder(self, folder: Path, relative: str, tree: _Tree, *, above: tuple[str, ...]) -> None:
        real = os.path.realpath(folder)
        if real in above:  # a symbolic link back to a folder above
            return
        try:
            with os.scandir(folder) as found:
                entries = [entry for entry in found if not _hidden(entry.name)]
        except OSError as error:
            raise DatasetError(f"{folder} cannot be read ({error.strerror or error})") from error
        nothing_else = True
        for entry in entries:
            path = relative + portable_name(entry.name)
            if _is_folder(entry):
                nothing_else = False
                if self._recursive:
                    self._scan_folder(folder / entry.name, f"{path}/", tree, above=(*above, real))
            elif Path(path).suffix.lower() in self._extensions:
                nothing_else = False
                if path in tree.images:
                    raise DatasetError(
                        f"{folder}: two files are named {entry.name!r} up to Unicode composition; rename one"
                    )
                tree.images[path] = folder / entry.name
            elif entry.name in METADATA_FILES:
                nothing_else = False
                if relative in tree.tables:
                    raise DatasetError(f"{folder} has more than one of {', '.join(METADATA_FILES)}; keep one")
                tree.tables[relative] = folder / entry.name
            else:
                tree.ignored.append(path)
                lower = entry.name.lower()
                nothing_else &= lower in _INCIDENTAL_FILES or lower.startswith("readme")
        if nothing_else and relative:
            tree.empty_folders.append(relative.rstrip("/"))


@dataclass(slots=True)
class _Tree:
    """What lies in a folder, all by path relative to it."""

    images: dict[str, Path] = field(default_factory=dict)
    tables: dict[str, Path] = field(default_factory=dict)  # folder with trailing slash ("" = the root) → file
    empty_folders: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)


def _hidden(name: str) -> bool:
    return name.startswith(".") or name == "__MACOSX"


def _provenance_inside(file: Path) -> Provenance | None:
    try:
        return read_provenance(file) if file.is_file() else None
    except OSError:  # decoding tells why
        return None


def _folder_of(path: str) -> str:
    """Return the folder part of a relative POSIX path, ``""`` for the root."""
    return path.rpartition("/")[0]


def _folder_labels(paths: Sequence[str], tree: _Tree) -> tuple[tuple[str, ...], list[str | None]]:
    """Return the classes and one label an image; none of both where fewer than two classes show."""
    folders = {_folder_of(path) for path in paths} - {""}
    depths = {folder.count("/") for folder in folders}
    folders.update(folder for folder in tree.empty_folders if not depths or folder.count("/") in depths)
    classes = tuple(sorted({PurePosixPath(folder).name for folder in folders}))
    if len(classes) < 2:
        return (), [None] * len(paths)
    return classes, [PurePosixPath(_folder_of(path)).name or None for path in paths]


def _metadata_labels(root: Path, paths: Sequence[str], rows: Mapping[str, Row]) -> list[str | None]:
    if not rows:
        raise DatasetError(f"labels='metadata', but {root} has no row in any of {', '.join(METADATA_FILES)}")
    if not any("label" in row.values for row in rows.values()):
        known = sorted({name for row in rows.values() for name in row.values})
        raise DatasetError(f"{root}: no column 'label' in the metadata; there are {', '.join(known)}")
    values = [rows[path].values.get("label") if path in rows else None for path in paths]
    return label_texts(values, [rows[path].where if path in rows else path for path in paths])


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a symbolic link that leads to itself: whoever reads it as an image names it
        return False


def _rows_by_image(root: Path, tree: _Tree) -> dict[str, Row]:
    """Read all metadata files; images that only they name are added to the tree."""
    rows: dict[str, Row] = {}
    missing: list[str] = []
    for relative, file in sorted(tree.tables.items()):
        folder = file.parent.resolve()
        for row in read_table(file):
            if "file_name" not in row.values:
                raise DatasetError(
                    f"{row.where}: no column 'file_name'; there are {shown(sorted(row.values))}"
                )
            name = contained(folder, row.values["file_name"], where=row.where)
            path = relative + portable_name(name)
            if path in rows:
                raise DatasetError(f"{row.where}: {path!r} has a row already ({rows[path].where})")
            if path not in tree.images:
                if not (folder / name).is_file():
                    missing.append(path)
                    continue
                tree.images[path] = folder / name
                tree.ignored = [ignored for ignored in tree.ignored if ignored != path]
            rows[path] = row
    if missing:
        raise DatasetError(
            f"{root}: the metadata names {len(missing)} files that do not exist, {shown(missing)}; "
            "restore the files or remove the rows"
        )
    return rows
