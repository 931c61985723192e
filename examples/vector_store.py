"""Texts and their vectors in one table on disk: an adapter of LanceDB.

Copy this file, or give the store that you have the same two methods. It knows
nothing of kbert. `pip install 'keras-kbert[search]'`.

Why LanceDB, of the stores that run inside a Python process: it keeps ids,
texts and vectors together on disk, and adds, replaces and deletes rows by id;
a process that dies leaves a whole table, opening one reads none of it, and
search is exact until an index is created. faiss-cpu is smaller (66 MB
installed; LanceDB with pyarrow 350 MB) and as fast, but is an index in memory
and no more: ids, texts and files that fit together are left to you. usearch
is likewise, and not exact by default. The local mode of qdrant-client is plain
Python: writing 5,000 vectors took it a minute; LanceDB wrote 50,000 in 2 s.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import lancedb
import numpy as np
import pyarrow as pa

TABLE = "texts"
# Texts that are embedded, and then kept whatever happens, at once.
ROWS = 1024
# Cosine of a text's vectors from the same encoder, but for rounding.
SAME = 0.9999


class VectorStore:
    """A table of ids, texts and vectors.

    Args:
        directory: where the table is, or will be.
        embed: from N texts to vectors of length 1, float (N, D).
    """

    def __init__(
        self, directory: str, embed: Callable[[list[str]], np.ndarray]
    ):
        """See the class."""
        self._database = lancedb.connect(directory)
        self._embed = embed

    def update(self, documents: Mapping[str, str]) -> int:
        """Hold these documents, id → text, and no others.

        Texts that are new or changed are embedded, or all of them where the
        vectors are another encoder's. Returns how many were.
        """
        table, kept = self._open(), {}
        if table is not None and not self._is_mine(table):
            self._database.drop_table(TABLE)
            table = None
        if table is not None:
            rows = table.search().select(["id", "text"]).limit(None).to_list()
            kept = {row["id"]: row["text"] for row in rows}
            gone = kept.keys() - documents.keys()
            if gone:
                table.delete(_one_of(gone))
        new = [key for key, text in documents.items() if kept.get(key) != text]
        for start in range(0, len(new), ROWS):
            keys = new[start : start + ROWS]
            self._write(keys, [documents[key] for key in keys])
        return len(new)

    def search(self, texts: list[str], k: int) -> list[list[dict[str, Any]]]:
        """Find the k documents that are most like each text.

        Returns:
            A list a text of dicts, the best first: `id`, `text`, `score`.
        """
        found: list[list[dict[str, Any]]] = [[] for _ in texts]
        table = self._open()
        if table is None or not texts:
            return found
        # A list: of an array of one row LanceDB makes another form of result.
        query = table.search(list(self._embed(texts))).distance_type("dot")
        query = query.select(["id", "text", "_distance"]).limit(k)
        for row in query.to_list():
            hit = {"id": row["id"], "text": row["text"]}
            hit["score"] = 1.0 - row["_distance"]
            found[row.get("query_index", 0)].append(hit)
        return [sorted(hits, key=lambda hit: -hit["score"]) for hits in found]

    def _open(self) -> Any:
        """The table, or None where there is none yet."""
        if TABLE not in self._database.list_tables().tables:
            return None
        return self._database.open_table(TABLE)

    def _is_mine(self, table: Any) -> bool:
        """Whether this encoder made the vectors, by one of them."""
        for row in table.search().limit(1).to_list():
            old, new = np.array(row["vector"]), self._embed([row["text"]])[0]
            return old.shape == new.shape and old @ new > SAME
        return False

    def _write(self, keys: list[str], texts: list[str]) -> None:
        """Add rows, or replace those of the same ids."""
        vectors = np.asarray(self._embed(texts), "float32")
        flat = pa.array(vectors.ravel())
        vectors = pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1])
        rows = pa.table({"id": keys, "text": texts, "vector": vectors})
        table = self._open()
        if table is None:
            self._database.create_table(TABLE, rows)
        else:
            merge = table.merge_insert("id").when_matched_update_all()
            merge.when_not_matched_insert_all().execute(rows)


def _one_of(keys: Iterable[str]) -> str:
    """A condition in SQL."""
    quoted = ", ".join("'" + key.replace("'", "''") + "'" for key in keys)
    return f"id IN ({quoted})"
