"""Tunes what each task has of its own on the frozen backbone: a head, then prompts for each gamma > 0.

  python3 tune.py DATA CHECKPOINT TUNED [--gammas 2 4 8] [--effort 1] [--processes 2]
Writes TUNED/NAME-head.pt and TUNED/NAME-GAMMA.pt; what is there already is not tuned again. Each process keeps to one core.
"""
import argparse
import os
import time
import zlib

import numpy as np
import torch
from torch import multiprocessing, nn
from torch.nn import functional as F

from model import LAYERS, WIDTH, Backbone
from tasks import CLASSES, NAMES, Walk, as_input, load

SEED = 12
# The head: features of so many augmented images, merged by r as often as r is here, and how often they are gone through.
FEATURES, MERGED, HEAD_EPOCHS, HEAD_BATCH, HEAD_RATE, WEIGHT_DECAY = 24000, (0, 0, 0, 0, 4, 8), 20, 256, 2e-3, 1e-3
# Prompts (VPT, as reference: a high rate). The rate falls as a cosine after a short rise.
STEPS, BATCH, RATE, WARM_UP, SCALE, SMOOTHING = 320, 32, 0.1, 0.05, 1.0, 0.05


def backbone_and_heads(checkpoint):
    """The averaged backbone, frozen, and the heads that it was trained with: [width, classes] and [classes] by task."""
    kept = torch.load(checkpoint, map_location="cpu", weights_only=False)["mean"]
    backbone = Backbone()
    backbone.load_state_dict({name[len("backbone.") :]: value for name, value in kept.items() if name.startswith("backbone.")})
    backbone.requires_grad_(False)
    heads = [(kept["heads"][at][:, :count].clone(), kept["biases"][at][:count].clone()) for at, count in enumerate(CLASSES)]
    return backbone, heads


def random_of(name):
    return np.random.default_rng([SEED, zlib.crc32(name.encode())])


def tune_head(backbone, head, data, task, count):
    """From the head of pre-training, on features of augmented images, which are computed once."""
    random = random_of(f"head/{NAMES[task]}")
    walk = Walk(data, task, random)
    parts = []
    with torch.no_grad():
        for at in range(0, count, 100):
            images, labels = walk.next(100)
            parts.append((backbone(images, MERGED[at // 100 % len(MERGED)]), labels))
    features, labels = torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])
    matrix, bias = (nn.Parameter(part) for part in head)
    optimizer = torch.optim.AdamW([{"params": [matrix]}, {"params": [bias], "weight_decay": 0}], lr=HEAD_RATE, weight_decay=WEIGHT_DECAY)
    steps = HEAD_EPOCHS * (len(features) // HEAD_BATCH)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, max(1, steps))
    for step in range(steps):
        if step % (len(features) // HEAD_BATCH) == 0:
            order = torch.from_numpy(random.permutation(len(features)))
        at = order[step * HEAD_BATCH % (len(features) // HEAD_BATCH * HEAD_BATCH) :][:HEAD_BATCH]
        loss = F.cross_entropy(features[at] @ matrix + bias, labels[at], label_smoothing=SMOOTHING)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return matrix.detach(), bias.detach()


def tune_prompts(backbone, head, data, task, gamma, steps):
    """[layers, gamma, width]; those of all layers are trained together, the head stays."""
    name = f"prompts/{NAMES[task]}/{gamma}"
    walk = Walk(data, task, random_of(name))
    torch.manual_seed(zlib.crc32(name.encode()))
    prompts = nn.Parameter(torch.randn(LAYERS, gamma, WIDTH) * SCALE)
    optimizer = torch.optim.Adam([prompts], lr=RATE)
    losses = []
    for step in range(steps):
        progress = step / steps
        rate = RATE * min((progress + 1 / steps) / WARM_UP, 0.5 * (1 + np.cos(np.pi * progress)))
        optimizer.param_groups[0]["lr"] = rate
        images, labels = walk.next(BATCH)
        features = backbone(images, 0, prompts[None].expand(BATCH, -1, -1, -1))
        loss = F.cross_entropy(features @ head[0] + head[1], labels, label_smoothing=SMOOTHING)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_([prompts], 1.0)
        optimizer.step()
        losses.append(loss.item())
        if (step + 1) % 40 == 0:
            print(f"{name} step {step + 1}/{steps} loss {np.mean(losses[-40:]):.3f}", flush=True)
    return prompts.detach()


@torch.no_grad()
def share_right(backbone, head, data, gamma=0, prompts=None, count=500):
    """Of the first so many images of the profiling set."""
    right = 0
    for at in range(0, count, 100):
        images = as_input(data["profile"][at : at + 100])
        mine = None if prompts is None else prompts[None].expand(len(images), -1, -1, -1)
        features = backbone(images, max(0, -gamma), mine)
        right += ((features @ head[0] + head[1]).argmax(1).numpy() == data["profile_labels"][at : at + 100]).sum()
    return right / count


def work(job):
    """A head (gamma None) or prompts, of one task."""
    chosen, task, gamma = job
    name = NAMES[task]
    path = os.path.join(chosen.tuned, f"{name}-{'head' if gamma is None else gamma}.pt")
    if os.path.exists(path):
        return
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    backbone, heads = backbone_and_heads(chosen.checkpoint)
    data = load(chosen.data)[task]
    started = time.time()
    if gamma is None:
        found = tune_head(backbone, heads[task], data, task, int(FEATURES * chosen.effort))
        shares = [share_right(backbone, head, data) for head in (heads[task], found)]
        said = f"head {shares[0]:.3f} before, {shares[1]:.3f} after"
    else:
        head = torch.load(os.path.join(chosen.tuned, f"{name}-head.pt"))
        # As much time for each gamma: a step takes longer with more tokens.
        steps = int(STEPS * chosen.effort * 1.8 / (1 + 0.1 * gamma))
        found = tune_prompts(backbone, head, data, task, gamma, steps)
        said = f"gamma {gamma} {share_right(backbone, head, data, gamma, found):.3f}"
    torch.save(found, path + ".part")
    os.replace(path + ".part", path)
    print(f"{name}: {said} ({time.time() - started:.0f} s)", flush=True)


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("data")
    arguments.add_argument("checkpoint")
    arguments.add_argument("tuned")
    arguments.add_argument("--gammas", type=int, nargs="+", default=[2, 4, 8])
    arguments.add_argument("--effort", type=float, default=1.0, help="times the images of each part")
    arguments.add_argument("--processes", type=int, default=2)
    chosen = arguments.parse_args()
    os.makedirs(chosen.tuned, exist_ok=True)
    heads = [(chosen, task, None) for task in range(len(NAMES))]
    prompts = [(chosen, task, gamma) for gamma in sorted(chosen.gammas, reverse=True) for task in range(len(NAMES))]
    with multiprocessing.get_context("spawn").Pool(chosen.processes) as pool:
        for jobs in (heads, prompts):
            pool.map(work, jobs, chunksize=1)


if __name__ == "__main__":
    main()
