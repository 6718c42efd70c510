"""Published trainings as data, with their sources. Speeds are as printed by their authors.

Rows with 8-bit floats, context or expert parallelism are left out: the planner does not model them.
"""

from dataclasses import dataclass, replace
from typing import Any

# Operations a second in bf16, of the data sheets.
PEAKS = {"A100-80G": 312e12, "H100-80G": 989e12, "H100-96G": 989e12}

# A device that the catalogue does not have: torchtitan's, at the shares of peaks that the catalogue
# takes for all. The links are those of H100-80G.
TITAN_TYPE = {"name": "H100-96G", "flops": 0.6 * 989e12, "bandwidth": 0.8 * 2.4e12, "launch": 1e-4,
              "memory": int((96 * 0.96 - 2) * 2**30), "source": "docs/benchmarks"}  # fmt: skip
LINKS = {"node": 8, "inner": {"seconds": 1e-5, "bandwidth": 0.7 * 450e9},
         "outer": {"seconds": 3e-5, "bandwidth": 0.7 * 50e9}}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    layers: int
    hidden: int
    heads: int
    words: int
    tokens: int  # of a sample
    key_heads: int = 0  # 0: a GPT; else a Llama
    inner: int = 0

    def config(self) -> dict[str, Any]:
        if not self.key_heads:
            return {"model_type": "gpt2", "n_layer": self.layers, "n_embd": self.hidden,
                    "n_head": self.heads, "n_positions": self.tokens, "vocab_size": self.words,
                    "tie_word_embeddings": False}  # fmt: skip
        return {"model_type": "llama", "num_hidden_layers": self.layers,
                "hidden_size": self.hidden, "num_attention_heads": self.heads,
                "num_key_value_heads": self.key_heads, "intermediate_size": self.inner,
                "max_position_embeddings": self.tokens, "vocab_size": self.words}  # fmt: skip

    def flops(self, samples: int) -> float:
        """Of a step: forward and backward, without recomputation, all of attention counted."""
        h, s = self.hidden, self.tokens
        if self.key_heads:
            weights = 2 * h * h * (1 + self.key_heads / self.heads) + 3 * h * self.inner
        else:
            weights = 12 * h * h
        return 3 * samples * s * (self.layers * (2 * weights + 4 * s * h) + 2 * h * self.words)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    source: str
    model: Model
    device: str
    devices: int
    batch: int  # samples of a step
    samples: int  # of a micro-batch
    seconds: float  # of a step
    tensor: int = 1
    pipeline: int = 1
    chunks: int = 1  # virtual stages of a device
    recompute: str = "none"
    sequence: bool = False
    shard: bool = False
    profile: str = "megatron"  # whose execution: of `paceline plan --profile`
    network: int = 25  # gigabytes a second of a device to other nodes
    note: str = ""

    @property
    def data(self) -> int:
        return self.devices // self.tensor // self.pipeline

    def only(self) -> str:
        passes = self.batch // (self.data * self.samples)
        return (f"pp={self.pipeline},tp={self.tensor},sp={int(self.sequence)},dp={self.data},"
                f"m={passes},vpp={self.chunks},fsdp={int(self.shard)},"
                f"ac={self.recompute}")  # fmt: skip

    def cluster(self) -> str | dict[str, Any]:
        """A line, or the text of a file."""
        if self.device != "H100-96G":
            return f"{self.device}:{self.devices}"
        return {"schema": "paceline.cluster/1", "types": [TITAN_TYPE], **LINKS,
                "groups": [{"type": "H100-96G", "count": self.devices}]}  # fmt: skip

    def told(self) -> str:
        words = f"{self.devices} × {self.device}, hidden {self.model.hidden}, batch {self.batch}"
        return f"{words}, {self.only()}{', ' + self.note if self.note else ''}"


def _gpt(layers: int, hidden: int, heads: int, words: int = 51200, tokens: int = 2048) -> Model:
    return Model(layers=layers, hidden=hidden, heads=heads, words=words, tokens=tokens)


def _hardware_seconds(row: Row, teraflops: float) -> float:
    """From operations a second and device that count the recomputed forward pass of each layer."""
    m = row.model
    again = row.batch * m.layers * (24 * m.tokens * m.hidden**2 + 4 * m.tokens**2 * m.hidden)
    return (m.flops(row.batch) + again) / (teraflops * 1e12 * row.devices)


# ---- T1, T2: D. Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters
# Using Megatron-LM", SC 2021, tables 1 and 2; micro-batches by the scripts of its repository ----

_SC21 = "Narayanan et al. 2021"


def _sc21(model: Model, teraflops: float, **fields: Any) -> Row:
    row = Row(source=_SC21, model=model, device="A100-80G", recompute="full", seconds=0, **fields)
    return replace(row, seconds=_hardware_seconds(row, teraflops))


T1 = [
    _sc21(_gpt(24, 2304, 24), 137, devices=32, batch=512, samples=16),
    _sc21(_gpt(30, 3072, 32), 138, devices=64, batch=512, samples=16, tensor=2),
    _sc21(_gpt(36, 4096, 32), 142, devices=128, batch=512, samples=16, tensor=4),
    _sc21(_gpt(40, 6144, 48), 135, devices=256, batch=1024, samples=8, tensor=8),
    _sc21(_gpt(48, 8192, 64), 138, devices=512, batch=1536, samples=4, tensor=8, pipeline=2),
    _sc21(_gpt(60, 10240, 80), 140, devices=1024, batch=1792, samples=2, tensor=8, pipeline=4,
          chunks=3),
    _sc21(_gpt(80, 12288, 96), 148, devices=1536, batch=2304, samples=2, tensor=8, pipeline=8,
          chunks=2),
    _sc21(_gpt(96, 16384, 128), 155, devices=1920, batch=2160, samples=1, tensor=8, pipeline=16,
          chunks=2),
    _sc21(_gpt(105, 20480, 128), 163, devices=2520, batch=2520, samples=1, tensor=8, pipeline=35,
          chunks=3),
    _sc21(_gpt(128, 25600, 160), 163, devices=3072, batch=3072, samples=1, tensor=8, pipeline=64),
]  # fmt: skip

_GPT175 = _gpt(96, 12288, 96)
_GPT530 = _gpt(105, 20480, 128)


def _zero3(model: Model, teraflops: float, devices: int, batch: int, samples: int) -> Row:
    return _sc21(model, teraflops, devices=devices, batch=batch, samples=samples, shard=True,
                 profile="paceline")


T2 = [
    _zero3(_GPT175, 144, 384, 1536, 4),
    _zero3(_GPT175, 88, 768, 1536, 2),
    _zero3(_GPT175, 44, 1536, 1536, 1),
    _zero3(_GPT530, 138, 640, 2560, 4),
    _zero3(_GPT530, 98, 1120, 2240, 2),
    _zero3(_GPT530, 48, 2240, 2240, 1),
    *(_sc21(_GPT175, rate, devices=devices, batch=1536, samples=1, tensor=8, pipeline=12)
      for devices, rate in ((384, 153), (768, 149), (1536, 141))),
    *(_sc21(_GPT530, rate, devices=devices, batch=2240, samples=1, tensor=8, pipeline=35)
      for devices, rate in ((560, 171), (1120, 167), (2240, 159))),
]  # fmt: skip


# ---- T3: Megatron-Core r0.8, the table of its README; operations without recomputation. The
# micro-batch is not printed: one sample. Sequences are divided, and so is the optimizer's state
# (ZeRO-1), which the planner has in pipelines alone ----


def _core(
    layers: int, hidden: int, heads: int, rate: float, *, tensor: int, pipeline: int, batch: int
) -> Row:
    model = _gpt(layers, hidden, heads, 131072, 4096)
    devices = 48 * tensor * pipeline
    seconds = model.flops(batch) / (rate * 1e12 * devices)
    return Row(source="Megatron-Core r0.8", model=model, device="H100-80G", devices=devices,
               batch=batch, samples=1, seconds=seconds, tensor=tensor, pipeline=pipeline,
               shard=True, sequence=tensor > 1, profile="megatron-core",
               network=50)  # fmt: skip


T3 = [
    _core(24, 2048, 16, 408.8, tensor=1, pipeline=1, batch=192),
    _core(30, 4096, 32, 465.9, tensor=2, pipeline=1, batch=192),
    _core(32, 6144, 48, 489.1, tensor=4, pipeline=1, batch=192),
    _core(48, 7168, 56, 459.6, tensor=8, pipeline=1, batch=192),
    _core(84, 8192, 64, 419.7, tensor=8, pipeline=2, batch=384),
    _core(92, 10240, 80, 420.5, tensor=8, pipeline=4, batch=768),
    _core(96, 12288, 96, 432.8, tensor=8, pipeline=6, batch=1152),
    _core(96, 16384, 128, 474.4, tensor=8, pipeline=8, batch=1536),
    _core(112, 18432, 144, 459.9, tensor=8, pipeline=16, batch=3072),
]

# ---- T4: Z. Jiang et al., "MegaScale", NSDI 2024, table 2: the rows of Megatron-LM, which T4 has,
# and MegaScale's own, whose kernels and attention are others. Both divide sequences ----

_MEGASCALE = [  # batch, devices, seconds of Megatron-LM, of MegaScale
    (768, 256, 40.0, 32.0), (768, 512, 21.2, 16.5), (768, 768, 15.2, 11.5), (768, 1024, 11.9, 8.9),
    (6144, 3072, 29.02, 23.66), (6144, 6144, 14.78, 12.21), (6144, 8192, 12.24, 9.56),
    (6144, 12288, 8.57, 6.34),
]  # fmt: skip


def _megascale(batch: int, devices: int, seconds: float, note: str) -> Row:
    return Row(source="Jiang et al. 2024", model=_gpt(96, 12288, 96, 64000), device="A100-80G",
               devices=devices, batch=batch, samples=1, seconds=seconds, tensor=8, pipeline=8,
               chunks=6, shard=True, sequence=True, note=note)  # fmt: skip


T4 = [_megascale(batch, devices, its, "Megatron-LM") for batch, devices, its, _ in _MEGASCALE]
T4_MEGASCALE = [_megascale(batch, devices, own, "MegaScale")
                for batch, devices, _, own in _MEGASCALE]  # fmt: skip


# ---- T6: V. Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models",
# 2022, table 5: full recomputation, and selective recomputation with divided sequences. Theirs
# computes attention again, and ours all but products and attention ----


def _recomputed(model: Model, full: float, selective: float, **fields: Any) -> tuple[Row, Row]:
    row = Row(source="Korthikanti et al. 2022", model=model, device="A100-80G", seconds=full,
              tensor=8, recompute="full", **fields)  # fmt: skip
    return row, replace(row, seconds=selective, recompute="selective", sequence=True)


_T6 = [
    _recomputed(_gpt(48, 6144, 64), 1.42, 1.10, devices=8, batch=4, samples=4),
    _recomputed(_GPT175, 18.13, 13.75, devices=64, batch=64, samples=1, pipeline=8, chunks=3),
    _recomputed(_GPT530, 49.05, 37.83, devices=280, batch=280, samples=1, pipeline=35, chunks=3),
    _recomputed(_gpt(128, 25600, 160), 94.42, 71.49, devices=512, batch=512, samples=1,
                pipeline=64),
]  # fmt: skip
T6 = [full for full, _ in _T6]
T6_SELECTIVE = [selective for _, selective in _T6]

# ---- T7: Llama Team, "The Llama 3 Herd of Models", 2024, table 4; without context parallelism.
# The number of chunks is not printed: 8. Sequences are divided ----

_LLAMA405 = Model(layers=126, hidden=16384, heads=128, words=128256, tokens=8192, key_heads=8,
                  inner=53248)  # fmt: skip


def _llama(devices: int, teraflops: float) -> Row:
    seconds = _LLAMA405.flops(2048) / (teraflops * 1e12 * devices)
    return Row(source="Llama Team 2024", model=_LLAMA405, device="H100-80G", devices=devices,
               batch=2048, samples=1, seconds=seconds, tensor=8, pipeline=16, chunks=8,
               shard=True, sequence=True, profile="llama3", network=50)  # fmt: skip


T7 = [_llama(8192, 430), _llama(16384, 400)]

# ---- T8: S. Smith et al., "Using DeepSpeed and Megatron to Train Megatron-Turing NLG 530B", 2022

T8 = [
    Row(source="Smith et al. 2022", model=_GPT530, device="A100-80G", devices=devices, batch=1920,
        samples=1, seconds=seconds, tensor=8, pipeline=35, recompute="full")
    for devices, seconds in ((2240, 60.1), (2800, 50.2), (3360, 44.4))
]  # fmt: skip

# ---- T10: torchtitan, docs/benchmarks; the rows in bf16. Its H100 have 96 GiB at 500 W.
# Where ranks share layers it divides sequences ----

_LLAMA8 = Model(layers=32, hidden=4096, heads=32, words=128256, tokens=8192, key_heads=8,
                inner=14336)  # fmt: skip
_LLAMA70 = Model(layers=80, hidden=8192, heads=64, words=128256, tokens=8192, key_heads=8,
                 inner=28672)  # fmt: skip


def _titan(model: Model, tokens_a_second: float, **fields: Any) -> Row:
    batch, devices = fields["batch"], fields["devices"]
    seconds = batch * model.tokens / (tokens_a_second * devices)
    return Row(source="torchtitan", model=model, device="H100-96G", seconds=seconds, shard=True,
               profile="torchtitan", network=50, **fields)  # fmt: skip


T10 = [
    _titan(_LLAMA8, 6667, devices=8, batch=16, samples=2, recompute="selective",
           note="compiled"),
    _titan(_LLAMA8, 6514, devices=128, batch=256, samples=2, recompute="selective",
           note="compiled"),
    _titan(_LLAMA8, 4378, devices=64, batch=96, samples=12, tensor=8, sequence=True,
           recompute="selective"),
    _titan(_LLAMA70, 597.3, devices=256, batch=512, samples=16, tensor=8, sequence=True,
           recompute="full"),
]  # fmt: skip

TABLES = {"T1": T1, "T2": T2, "T3": T3, "T4": T4, "T4-MegaScale": T4_MEGASCALE, "T6": T6,
          "T6-selective": T6_SELECTIVE, "T7": T7,
          "T8": T8, "T10": T10}  # fmt: skip
