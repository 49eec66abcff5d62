"""Where the files that people edit are: `models/` and `experiments/`, in a checkout and in an installed wheel alike."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from fssim.errors import UserError, nearest

_PACKAGE = Path(__file__).resolve().parent
_INSTALLED = _PACKAGE / "_share"  # the wheel's copy; a checkout has the folders beside the package


def share() -> Path:
    """Return the folder that holds `models` and `experiments`."""
    return _INSTALLED if _INSTALLED.is_dir() else _PACKAGE.parent


def models(kind: str) -> Path:
    """Return the folder of the models of a kind: "filesystems", "devices", "hosts" or "machines"."""
    return share() / "models" / kind


def experiments() -> Path:
    """Return the folder of the experiments."""
    return share() / "experiments"


def names(folder: Path, suffix: str = ".toml") -> Iterator[str]:
    """Yield the names that may stand for a file of `folder`, sorted."""
    if folder.is_dir():
        yield from sorted(path.stem for path in folder.iterdir() if path.suffix == suffix)


def data_file(stated_in: Path, file: str) -> Path:
    """Return the data file that a file names: relative to that file, whether or not it is there.

    What the package's experiments and calibrations name, and what the `results.json` of a run names wherever it lies
    now, may also be among the experiments of the package.
    """
    beside = stated_in.parent / file
    may_fall_back = stated_in.suffix == ".json" or stated_in.resolve().is_relative_to(experiments().resolve())
    shipped = experiments() / file
    return shipped if may_fall_back and not beside.exists() and shipped.exists() else beside


def find(given: str, folder: Path, what: str, named_in: Path | None = None) -> Path:
    """Return the TOML file that `given` means: a path, or a name in `folder`.

    A path that the file `named_in` gives is relative to that file, or else to the current folder.
    Raises `UserError` with the nearest names if there is none.
    """
    looks_like_a_path = given.endswith(".toml") or "/" in given
    if looks_like_a_path and named_in is not None and (named_in.parent / given).is_file():
        return named_in.parent / given
    path = Path(given) if looks_like_a_path else folder / f"{given}.toml"
    if path.is_file():
        return path
    if looks_like_a_path:
        raise UserError(f"{given}: no such file; known by name: {', '.join(names(folder)) or 'none'}")
    raise UserError(f"unknown {what} {given!r}{nearest(given, names(folder))}")
