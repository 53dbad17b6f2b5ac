"""DomainNet (Peng et al. 2019): the official lists ``real_train.txt`` and ``real_test.txt`` over one image folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from semco.data.listing import FILES, Entry, Listing
from semco.data.names import listed_names
from semco.data.sources.rows import Role, Rows, labelled_paths, path_inside
from semco.errors import UserError
from semco.files import exists

# Folders below the root in which the lists may be.
PLACES = ("", "txt", "splits", "image_list", "domainnet", "domainnet/txt")
TRAIN, TEST = "_train.txt", "_test.txt"


def find_lists(root: Path, domain: str | None = None) -> tuple[Path, Path] | None:
    """Return the two lists of a domain, or those of the only domain that has them; None if there are none."""
    for place in PLACES:
        folder = root / place
        trains = sorted(folder.glob(f"{domain or '*'}{TRAIN}")) if exists(folder) and folder.is_dir() else []
        pairs = [(file, file.with_name(file.name.removesuffix(TRAIN) + TEST)) for file in trains]
        pairs = [(train, test) for train, test in pairs if exists(test)]
        if len(pairs) == 1:
            return pairs[0]
    return None


def list_real(root: Path, classes: Sequence[str] | None = None) -> Listing:
    """List DomainNet Real."""
    lists = find_lists(root, "real")
    if lists is None:
        raise UserError(
            f"{root} contains no real_train.txt and real_test.txt: put the official lists there, beside the folder "
            "real/, or set data.root to another folder."
        )
    return list_lists(root, lists, classes)


def list_lists(root: Path, lists: tuple[Path, Path], classes: Sequence[str] | None = None) -> Listing:
    """List the images of two list files; a class is called like the folder of its images."""
    names: dict[str, str] = {}
    rows = Rows(listed_names("domainnet"))
    roles: tuple[Role, Role] = ("train", "test")
    for file, role in zip(lists, roles, strict=True):
        for path, number in labelled_paths(file):
            folder = Path(path).parent.name or number
            if names.setdefault(number, folder) != folder:
                raise UserError(f"{file}: class {number} is both {names[number]!r} and {folder!r}; correct the list.")
            rows.add(Entry(path_inside(root, path), FILES), folder, role)
    rows.notes.append(f"the split of {lists[0].name} and {lists[1].name} is used")
    return rows.listing(root, classes)
