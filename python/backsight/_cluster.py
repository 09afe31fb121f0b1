"""What the adapters for clusters share: planning pieces of captures, and reading them wherever they are decoded."""

import collections
import functools
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Optional, TypeVar

from . import _native
from .remote import local

DEFAULT_SIZE = 16 << 20

_T = TypeVar("_T")


@dataclass(frozen=True)
class Place:
    """Where a capture is, and how it is opened. Travels to the workers."""

    url: str
    images: tuple[str, ...] = ()
    options: tuple[tuple[str, Any], ...] = ()
    cache: Optional[str] = None
    storage_options: Optional[tuple[tuple[str, Any], ...]] = field(default=None, hash=False)

    def open(self) -> _native.Capture:
        """Opens the capture on this machine; what lies elsewhere is fetched."""
        storage = dict(self.storage_options or ())
        path = local(self.url, self.cache, storage)
        images = tuple(self._image(image, storage) for image in self.images)
        return _opened(path, _version(path), images, self.options)

    def _image(self, image: str, storage: dict[str, Any]) -> str:
        file, at, address = image.rpartition("@")
        if not at or not address.lower().startswith("0x"):
            file, at, address = image, "", ""
        return local(file, self.cache, storage) + at + address


@dataclass(frozen=True)
class Wanted:
    """What is wanted of a capture."""

    table: str
    columns: Optional[tuple[str, ...]] = None
    where: Optional[str] = None
    until: Optional[int] = None


def _version(path: str) -> tuple[int, int]:
    try:
        status = os.stat(path)
        return status.st_mtime_ns, status.st_size
    except OSError:
        return 0, 0


@functools.lru_cache(maxsize=4)
def _opened(
    path: str, _version: tuple[int, int], images: tuple[str, ...], options: tuple[tuple[str, Any], ...]
) -> _native.Capture:
    # The pieces of a capture come one after the other: its code is read once.
    return _native.open(path, images=list(images), **dict(options))


def places(
    urls: list[str],
    images: "tuple[str, ...] | list[str]",
    options: dict[str, Any],
    cache: "Optional[str | os.PathLike[str]]",
    storage_options: Optional[dict[str, Any]],
) -> list[Place]:
    """A place for each capture."""
    frozen = tuple(sorted((key, tuple(value) if isinstance(value, list) else value) for key, value in options.items()))
    storage = tuple(storage_options.items()) if storage_options else None
    folder = os.fspath(cache) if cache is not None else None
    return [Place(url, tuple(map(os.fspath, images)), frozen, folder, storage) for url in urls]


# A piece of a capture, as text.
Task = tuple[Place, str]


def plan(places: Iterable[Place], table: str, size: int) -> list[Task]:
    """The pieces of some captures. They call them what the user does, wherever they were fetched to."""
    planned = []
    for place in places:
        pieces = _native.pieces(place.open(), table, size=size)
        planned += [(place, piece.named(place.url).to_json()) for piece in pieces]
    return planned


# Parts of the work, at least, before one of them has several captures or pieces: there may be so many workers.
_PARTS = 64


def grouped(items: "list[_T]", bytes_of: "Callable[[_T], float]" = lambda _: 0, size: int = 1) -> "list[list[_T]]":
    """Neighbours together: to schedule a part costs more than to decode a small capture. Each part has one, or several of
    together at most `size` bytes."""
    most = max(1, len(items) // _PARTS)
    groups: list[list[_T]] = []
    room = 0.0
    for item in items:
        room -= bytes_of(item)
        if not groups or len(groups[-1]) >= most or room < 0:
            groups.append([])
            room = size - bytes_of(item)
        groups[-1].append(item)
    return groups


def weights(tasks: list[Task]) -> "Callable[[Task], float]":
    """About how many bytes there are to read for each task: a share of its capture."""
    shares = collections.Counter(place for place, _ in tasks)
    return lambda task: json.loads(task[1])["identity"]["bytes"] / shares[task[0]]


def read(place: Place, piece: str, wanted: Wanted) -> _native.Table:
    """The rows of a piece."""
    columns = list(wanted.columns) if wanted.columns is not None else None
    capture = place.open()
    return _native.Piece.from_json(piece).table(
        wanted.table, columns, wanted.where, until=wanted.until, capture=capture
    )


def count(place: Place, piece: str) -> _native.Profile:
    """The profile of a piece."""
    return _native.Piece.from_json(piece).profile(capture=place.open())


def merged(profiles: "list[_native.Profile]") -> _native.Profile:
    """Several profiles as one, and each of them as it was: a scheduler may ask for it again."""
    first = _native.Profile.from_bytes(profiles[0].to_bytes(), "profile")
    for profile in profiles[1:]:
        first.merge(profile)
    return first
