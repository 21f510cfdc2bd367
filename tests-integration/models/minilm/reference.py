"""The published implementation: transformers' BertModel with mean pooling and L2 normalisation."""

import torch
from transformers import AutoTokenizer, BertModel

from .checkpoint import checkpoint_dir


def tokenizer():
    """Sentences to padded (ids, mask): call it with ``padding=True, return_tensors="pt"``."""
    return AutoTokenizer.from_pretrained(str(checkpoint_dir()), local_files_only=True)


def tokenize(sentences: list[str]) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and attention mask, both i64 [batch, longest sentence]."""
    batch = tokenizer()(sentences, padding=True, truncation=True, return_tensors="pt")
    return batch["input_ids"], batch["attention_mask"]


@torch.no_grad()
def pooled(bert: BertModel, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Unit-length masked mean of ``bert``'s last hidden states, [batch, hidden]."""
    hidden = bert(input_ids=ids, attention_mask=mask).last_hidden_state
    weight = mask[..., None].to(hidden.dtype)
    mean = (hidden * weight).sum(1) / weight.sum(1).clamp_min(1e-9)
    return torch.nn.functional.normalize(mean, dim=-1)


class Reference:
    """``reference(ids, mask)`` gives unit-length embeddings f32 [batch, 384] as the model card computes them."""

    def __init__(self) -> None:
        self.bert = BertModel.from_pretrained(str(checkpoint_dir()), local_files_only=True).eval()

    def __call__(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return pooled(self.bert, ids, mask)
