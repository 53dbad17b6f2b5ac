"""The official files that label vectors are built from, and their download."""

from __future__ import annotations

from pathlib import Path

from semco.download import Report, Source, download, no_report
from semco.errors import unknown

SOURCES = {
    "glove": Source(
        "https://nlp.stanford.edu/data/glove.840B.300d.zip",
        "glove.840B.300d.zip",
        2_176_768_927,
        licence="PDDL 1.0",
    ),
    "glove-6b": Source("https://nlp.stanford.edu/data/glove.6B.zip", "glove.6B.zip", 862_182_613, licence="PDDL 1.0"),
    "word2vec": Source(
        "https://drive.usercontent.google.com/download?id=0B7XkCwpI5KDYNlNUTTlSS21pQmM&export=download&confirm=t",
        "GoogleNews-vectors-negative300.bin.gz",
        1_647_046_227,
        "21c05ae916a67a4da59b1d006903355cced7de7da1e42bff9f0504198c748da8",
        licence="Apache 2.0",
    ),
    "conceptnet": Source(
        "https://s3.amazonaws.com/conceptnet/downloads/2019/edges/conceptnet-assertions-5.7.0.csv.gz",
        "conceptnet-assertions-5.7.0.csv.gz",
        497_963_447,
        "accd65fe94038584295574ddc26e1500c1919c8c4532bf771811cafd0948af7e",
        licence="CC BY-SA 4.0",
    ),
}


def fetch(what: str, to: Path, report: Report = no_report) -> Path:
    """Download one of `SOURCES` into the folder ``to``, unless it is already there, and return its path."""
    if what not in SOURCES:
        raise unknown("file to fetch", what, SOURCES)
    return download(SOURCES[what], Path(to), report)
