"""The three tasks as tensors, and batches that mix them."""
import os

import numpy as np
import torch
from torch.nn import functional as F

NAMES = ("fashion", "digits", "glyphs")
CLASSES = (10, 10, 26)
WIDEST = max(CLASSES)


def load(folder):
    return [dict(np.load(os.path.join(folder, f"{name}.npz"))) for name in NAMES]


def as_input(images):
    """uint8 [n,28,28] -> float [n,1,32,32] in 0..1, two pixels of black around."""
    return F.pad(torch.from_numpy(np.ascontiguousarray(images)).float() / 255, (2, 2, 2, 2))[:, None]


def augmented(images, task, random, shift=2):
    """As as_input, each image shifted by up to `shift` pixels; clothes are mirrored half of the time."""
    padded = np.pad(images, ((0, 0), (2 + shift,) * 2, (2 + shift,) * 2))
    rows, columns = random.integers(0, 2 * shift + 1, (2, len(images)))
    out = np.empty((len(images), 32, 32), np.float32)
    for at, (row, column) in enumerate(zip(rows, columns)):
        out[at] = padded[at, row : row + 32, column : column + 32]
    if NAMES[task] == "fashion":
        mirrored = random.random(len(images)) < 0.5
        out[mirrored] = out[mirrored, :, ::-1]
    return torch.from_numpy(out / 255)[:, None]


class Walk:
    """Through a task's training images again and again, in a new order each time."""

    def __init__(self, data, task, random, shift=2):
        self.data, self.task, self.random, self.shift, self.order = data, task, random, shift, np.empty(0, np.int64)

    def next(self, count):
        while len(self.order) < count:
            self.order = np.concatenate([self.order, self.random.permutation(len(self.data["train"]))])
        at, self.order = self.order[:count], self.order[count:]
        labels = torch.from_numpy(self.data["train_labels"][at].astype(np.int64))
        return augmented(self.data["train"][at], self.task, self.random, self.shift), labels


def masked(logits, task):
    """Columns past a task's classes are out of the question."""
    absent = torch.arange(WIDEST)[None] >= torch.tensor(CLASSES)[task][:, None]
    return logits.masked_fill(absent, -1e9)
