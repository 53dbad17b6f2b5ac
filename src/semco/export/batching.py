"""Concurrent requests share forward passes: whatever is waiting when the network is free becomes one batch.

Shapes: N images.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Iterator

import torch
from torch import Tensor

from semco.predict.engine import Engine
from semco.predict.predictions import Prediction, predictions_of
from semco.training.allocator import with_reused_memory

Waiting = tuple[Tensor, asyncio.Future[Prediction], asyncio.AbstractEventLoop, int]


class Batcher:
    """Runs the engine in one thread; `predict` may be called by any number of coroutines."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._queue: queue.Queue[Waiting | None] = queue.Queue()
        self._thread = threading.Thread(target=self._run, name="semco-forward", daemon=True)
        self._thread.start()

    async def predict(self, image: Tensor, top: int) -> Prediction:
        """Return the prediction of an image (C, H, W) uint8."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Prediction] = loop.create_future()
        self._queue.put((image, future, loop, top))
        return await future

    def close(self) -> None:
        self._queue.put(None)
        self._thread.join(timeout=10)

    def _run(self) -> None:
        for _ in with_reused_memory(map(self._answer, self._batches()), torch.device("cpu")):
            pass

    def _batches(self) -> Iterator[list[Waiting]]:
        """Yield the waiting images, at most a batch at a time, until the batcher is closed."""
        while (first := self._queue.get()) is not None:
            batch, is_last = [first], False
            while len(batch) < self._engine.about.batch_size and not self._queue.empty():
                item = self._queue.get()
                if item is None:
                    is_last = True
                    break
                batch.append(item)
            yield batch
            if is_last:
                return

    def _answer(self, batch: list[Waiting]) -> None:
        try:
            (scores,) = self._engine.stream([torch.stack([image for image, *_ in batch])])
            for i, (_, future, loop, top) in enumerate(batch):
                (answer,) = predictions_of([""], scores.row(i), self._engine.about, top)
                loop.call_soon_threadsafe(_set_result, future, answer)
        except Exception as error:  # every waiting request gets the error
            for _, future, loop, _ in batch:
                loop.call_soon_threadsafe(_set_error, future, error)


def _set_result(future: asyncio.Future[Prediction], answer: Prediction) -> None:
    if not future.done():
        future.set_result(answer)


def _set_error(future: asyncio.Future[Prediction], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
