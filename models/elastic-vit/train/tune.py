"""Tunes what each task has of its own on the frozen backbone: a head, then prompts for each gamma > 0. Both start from those of pre-training.

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

from model import Backbone
from tasks import CLASSES, NAMES, Walk, as_input, load

SEED = 12
# The head: features of so many augmented images, merged by r as often as r is here, and how often they are gone through.
FEATURES, MERGED, HEAD_EPOCHS, HEAD_BATCH, HEAD_RATE, WEIGHT_DECAY = 24000, (0, 0, 0, 0, 4, 8), 20, 256, 2e-3, 1e-3
# Prompts: steps at gamma 8; the rate rises, and falls as a cosine.
STEPS, BATCH, RATE, WARM_UP, SMOOTHING = 200, 32, 0.3, 0.05, 0.05


def load_backbone(checkpoint):
    """The averaged backbone, frozen, and what each task was trained with: head ([width, classes], [classes]), prompts by gamma."""
    kept = torch.load(checkpoint, map_location="cpu", weights_only=False)["mean"]
    inside = lambda prefix: {name[len(prefix) :]: value for name, value in kept.items() if name.startswith(prefix)}
    backbone = Backbone()
    backbone.load_state_dict(inside("backbone."))
    backbone.requires_grad_(False)
    heads = [(kept["heads"][at][:, :count].clone(), kept["biases"][at][:count].clone()) for at, count in enumerate(CLASSES)]
    prompts = [{int(gamma): stacked[at] for gamma, stacked in inside("prompts.").items()} for at in range(len(NAMES))]
    return backbone, heads, prompts


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


@torch.no_grad()
def mean_tokens(backbone, data, task, gamma):
    """[layers, gamma, width]: what prompts start from where pre-training had none, the mean of the tokens before each layer, and a little noise."""
    random = random_of(f"start/{NAMES[task]}/{gamma}")
    seen = []
    hooks = [block.register_forward_pre_hook(lambda _, given: seen.append(given[0])) for block in backbone.blocks]
    backbone(Walk(data, task, random).next(100)[0])
    for hook in hooks:
        hook.remove()
    means = torch.stack([layer.mean((0, 1)) for layer in seen])[:, None].expand(-1, gamma, -1)
    noise = torch.from_numpy(random.standard_normal(means.shape)).float()
    return means + 0.1 * means.std(-1, keepdim=True) * noise


def tune_prompts(backbone, head, start, data, task, steps):
    """[layers, gamma, width]; those of all layers are trained together, the head stays. RATE counts in deviations of a layer's prompts."""
    name = f"prompts/{NAMES[task]}/{start.shape[1]}"
    walk = Walk(data, task, random_of(name))
    deviation = start.std((1, 2), keepdim=True)
    change = nn.Parameter(torch.zeros_like(start))
    optimizer = torch.optim.Adam([change], lr=RATE)
    losses = []
    for step in range(steps):
        progress = step / steps
        rate = RATE * min((progress + 1 / steps) / WARM_UP, 0.5 * (1 + np.cos(np.pi * progress)))
        optimizer.param_groups[0]["lr"] = rate
        images, labels = walk.next(BATCH)
        prompts = start + deviation * change
        features = backbone(images, 0, prompts[None].expand(BATCH, -1, -1, -1))
        loss = F.cross_entropy(features @ head[0] + head[1], labels, label_smoothing=SMOOTHING)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if (step + 1) % 20 == 0:
            print(f"{name} step {step + 1}/{steps} loss {np.mean(losses[-20:]):.3f}", flush=True)
    return (start + deviation * change).detach()


@torch.no_grad()
def share_right(backbone, head, data, gamma=0, prompts=None, count=200):
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
    backbone, heads, prompts = load_backbone(chosen.checkpoint)
    data = load(chosen.data)[task]
    started = time.time()
    if gamma is None:
        before = share_right(backbone, heads[task], data)
        found = tune_head(backbone, heads[task], data, task, int(FEATURES * chosen.effort))
        said = f"head {before:.3f} before, {share_right(backbone, found, data):.3f} after"
    else:
        head = torch.load(os.path.join(chosen.tuned, f"{name}-head.pt"))
        # As much time for each gamma: a step takes longer with more tokens.
        steps = int(STEPS * chosen.effort * 1.8 / (1 + 0.1 * gamma))
        start = prompts[task].get(gamma)
        start = mean_tokens(backbone, data, task, gamma) if start is None else start
        before = share_right(backbone, head, data, gamma, start)
        found = tune_prompts(backbone, head, start, data, task, steps)
        after = share_right(backbone, head, data, gamma, found)
        # A few steps may take more than they give.
        found = found if after >= before else start
        said = f"gamma {gamma} {before:.3f} before, {after:.3f} after"
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
