"""Class names of known data sets, available without the images and without loading torch."""

from __future__ import annotations

from pathlib import Path

from semco.data.names import listed_names, readable_class, wordnet_names
from semco.errors import UserError, nearest
from semco.files import exists, read_text

# fmt: off
FASHION = (
    "t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot",
)

FRUIT = (
    "anjou pear", "cantaloupe", "conference pear", "galia melon", "golden delicious", "granny smith",
    "honeydew melon", "kaiser pear", "orange", "pink lady", "red delicious", "royal gala", "satsuma", "watermelon",
)

CIFAR10 = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)

CIFAR100 = (
    "apple", "aquarium_fish", "baby", "bear", "beaver", "bed", "bee", "beetle", "bicycle", "bottle",
    "bowl", "boy", "bridge", "bus", "butterfly", "camel", "can", "castle", "caterpillar", "cattle",
    "chair", "chimpanzee", "clock", "cloud", "cockroach", "couch", "crab", "crocodile", "cup",
    "dinosaur", "dolphin", "elephant", "flatfish", "forest", "fox", "girl", "hamster", "house",
    "kangaroo", "keyboard", "lamp", "lawn_mower", "leopard", "lion", "lizard", "lobster", "man",
    "maple_tree", "motorcycle", "mountain", "mouse", "mushroom", "oak_tree", "orange", "orchid",
    "otter", "palm_tree", "pear", "pickup_truck", "pine_tree", "plain", "plate", "poppy", "porcupine",
    "possum", "rabbit", "raccoon", "ray", "road", "rocket", "rose", "sea", "seal", "shark", "shrew",
    "skunk", "skyscraper", "snail", "snake", "spider", "squirrel", "streetcar", "sunflower",
    "sweet_pepper", "table", "tank", "telephone", "television", "tiger", "tractor", "train", "trout",
    "tulip", "turtle", "wardrobe", "whale", "willow_tree", "wolf", "woman", "worm",
)
# fmt: on

CLASS_NAMES = {
    "fashion-mini": FASHION,
    "fruit-mini": FRUIT,
    "fashion-mnist": FASHION,
    "cifar10": CIFAR10,
    "cifar100": CIFAR100,
    "mini-imagenet": tuple(wordnet_names()[wordnet_id] for wordnet_id in listed_names("mini_imagenet")),
    "cub200": listed_names("cub200"),
    "domainnet-real": listed_names("domainnet"),
}


def class_names(source: str) -> tuple[str, ...]:
    """Return the class names of a known data set, a text file (one name per line) or a folder of class folders."""
    if source in CLASS_NAMES:
        return CLASS_NAMES[source]
    path = Path(source)
    if exists(path) and path.is_dir():
        from semco.data.folder import class_folders

        return tuple(class_folders(path))
    if exists(path):
        return _read_names(path)
    hint = nearest(source, CLASS_NAMES) or "."
    known = ", ".join(CLASS_NAMES)
    raise UserError(f"{source!r} is neither a file, a folder nor a known data set{hint} Known: {known}.")


def _read_names(path: Path) -> tuple[str, ...]:
    lines = read_text(path, encoding="utf-8-sig").splitlines()
    names = tuple(readable_class(line.strip()) for line in lines if line.strip())
    if not names:
        raise UserError(f"{path} is empty; write one class name per line.")
    return names
