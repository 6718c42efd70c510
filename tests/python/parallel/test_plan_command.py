"""`paceline plan`: its answers for models by name, by file and by script, and what it refuses."""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from command import DEADLINE_S, ROOT, find_binary, paceline
from jsonschema import Draft202012Validator

MIXED = "H100-80G:8,A100-80G:8"
SCHEMA = json.loads((ROOT / "docs" / "schemas" / "plan.json").read_text())


def planned(*words: str) -> dict[str, Any]:
    done = paceline("plan", "--json", *words)
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    Draft202012Validator(SCHEMA).validate(plan)
    return plan


def ranks_of(plan: dict[str, Any]) -> list[int]:
    return sorted([rank for stage in plan["stages"] for rank in stage["ranks"]] + plan["unused"])


def test_a_model_by_name_gets_a_plan_for_all_devices() -> None:
    plan = planned("--model", "llama-8b", "--cluster", MIXED, "--global-batch", "64")
    assert ranks_of(plan) == list(range(16))
    assert sum(plan["shares"]) == 64
    assert plan["stages"][0]["layers"][0] == 0 and plan["stages"][-1]["layers"][1] == 34
    assert plan["bound"] <= plan["predicted"]["step"]
    assert plan["because"]


def test_faster_devices_get_larger_shares() -> None:
    plan = planned("--model", "vit-large", "--cluster", MIXED, "--global-batch", "2048", "--only",
                   "pp=1,tp=1,dp=16")  # fmt: skip
    fast, slow = plan["shares"][:8], plan["shares"][8:]
    assert min(fast) > 1.5 * max(slow)


def test_the_same_question_has_the_same_answer() -> None:
    words = ("--model", "llama-70b", "--cluster", "H100-80G:64,A100-80G:128")
    assert planned(*words) == planned(*words)


def test_the_text_says_why_and_what_was_rejected() -> None:
    done = paceline("plan", "--model", "llama-8b", "--cluster", MIXED, "--global-batch", "64")
    assert done.returncode == 0, done.stderr
    assert "\nbecause " in done.stdout
    assert "compute +" in done.stdout
    assert "REJECTED" in done.stdout
    assert "catalogue: NVIDIA H100 data sheet" in done.stdout


def test_why_not_compares_with_the_best_plan_that_has_the_value() -> None:
    words = ("--model", "llama-8b", "--cluster", MIXED, "--global-batch", "64")
    slower = paceline("plan", *words, "--why-not", "tp=8")
    assert slower.returncode == 0, slower.stderr
    assert slower.stdout.startswith("tensor 8: the best such plan, ")
    assert "% longer" in slower.stdout
    impossible = paceline("plan", *words, "--why-not", "pp=99")
    assert "the cluster has 16 devices" in impossible.stdout


def test_why_not_as_json_is_json() -> None:
    done = paceline("plan", "--json", "--model", "vit-base", "--cluster", "T4-16G:2", "--why-not",
                    "schedule=gpipe")  # fmt: skip
    answer = json.loads(done.stdout)
    schema = json.loads((ROOT / "docs" / "schemas" / "why_not.json").read_text())
    Draft202012Validator(schema).validate(answer)
    assert answer["because"].startswith("schedule gpipe: ")


def test_the_text_names_the_model_that_was_planned() -> None:
    done = paceline("plan", "--model", "llama-8b", "--cluster", MIXED, "--sequence", "4096")
    assert "model   llama-8b, 4096 tokens a sample, 8.03 billion parameters, bf16" in done.stdout


def test_devices_without_bf16_say_so() -> None:
    done = paceline("plan", "--model", "vit-base", "--cluster", "T4-16G:2")
    assert "it has no bf16, and this is the rate of fp16" in done.stdout


def test_a_config_whose_library_cannot_carry_out_the_plan_says_so(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"model_type": "gpt2", "n_layer": 96, "n_embd": 12288,
                                  "n_head": 96, "n_positions": 2048, "vocab_size": 51200,
                                  "tie_word_embeddings": False}))  # fmt: skip
    words = ("--model", str(config), "--cluster", "A100:1024", "--global-batch", "1536")
    done = paceline("plan", *words)
    assert done.returncode == 0, done.stderr
    assert "175.23 billion parameters" in done.stdout  # with a head of its own
    assert "means the one with the most memory, and not A100-40G" in done.stdout
    assert re.search(r"needs:  a tensor plan for gpt2 models, which transformers does not have",
                     done.stdout)  # fmt: skip
    only = re.search(r"--only (\S+) looks for a plan that parallelize carries out", done.stdout)
    assert only is not None, done.stdout
    assert "needs" not in planned(*words, "--only", only[1])
    rate = re.search(r"rate    (\d+) TFLOP/s a device, (\d+) % of the peak", done.stdout)
    assert rate is not None, done.stdout
    predicted = planned(*words)["predicted"]
    assert float(rate[1]) == round(predicted["device_flops"] / 1e12)
    assert float(rate[2]) == round(100 * predicted["utilization"])


def test_a_plan_by_name_says_what_it_needs() -> None:
    words = ("--model", "gpt-175b", "--cluster", "A100:1024", "--global-batch", "1536")
    assert planned(*words)["needs"]  # transformers divides no gpt2
    carried_out = planned("--model", "llama-8b", "--cluster", "H100:64", "--only", "tp=2,pp=2")
    assert carried_out["tensor"] == 2 and "needs" not in carried_out


def test_a_model_with_one_weight_at_both_ends_has_stages_and_pays_for_a_copy() -> None:
    words = ("--model", "gpt-1.5b", "--cluster", "A100:2", "--global-batch", "8")
    plan = planned(*words, "--only", "pp=2,tp=1,fsdp=0,ac=full,m=4")
    assert len(plan["stages"]) == 2 and "needs" not in plan
    # The model, and the copy, each with 18 bytes a parameter; then what passes keep.
    assert sum(plan["predicted"]["memory"]) > 18 * (1.55e9 + 50257 * 1600)
    done = paceline("plan", *words, "--only", "pp=2,tp=1")
    assert "needs:" not in done.stdout and "1.55 billion parameters" in done.stdout


def test_a_model_by_name_may_get_interleaved_stages_unless_they_are_left_out() -> None:
    words = ("--model", "llama-8b", "--cluster", "H100:64", "--global-batch", "1024")
    chunks = planned(*words, "--only", "pp=2,tp=1")
    assert chunks["schedule"] == "interleaved-1f1b" and "needs" not in chunks
    assert all(len(stage["later"]) in (1, 3) for stage in chunks["stages"])
    for left_out in (("--only", "pp=2,tp=1,vpp=1"),
                     ("--only", "pp=2,tp=1", "--profile", "torchtitan")):
        plain = planned(*words, *left_out)
        assert not any("later" in stage for stage in plain["stages"])


def test_the_flag_for_a_plan_without_needs_keeps_the_users_values() -> None:
    words = ("--model", "gpt-22b", "--cluster", "A100:64", "--global-batch", "256")
    done = paceline("plan", *words, "--only", "tp=8,ac=full")
    only = re.search(r"--only (\S+) looks for a plan that parallelize carries out", done.stdout)
    assert only is not None, done.stdout
    assert "ac=full" in only[1].split(",") and "tp=1" in only[1].split(",")
    plan = planned(*words, "--only", only[1])
    assert "needs" not in plan and plan["tensor"] == 1


def test_a_mixture_of_experts_is_predicted_alone() -> None:
    words = ("--model", "mixtral-8x7b", "--cluster", "H100:64", "--global-batch", "256")
    done = paceline("plan", *words)
    assert done.returncode == 0, done.stderr
    assert "mixtral-8x7b, 2 of 8 experts a token, 32768 tokens a sample, 46.7" in done.stdout
    assert ("needs:  expert parallelism for mixtral models, which paceline does not carry out"
            in done.stdout)  # fmt: skip
    assert "no plan was found that parallelize carries out" in done.stdout
    assert planned(*words)["needs"]


def test_output_that_finds_no_room_is_an_error() -> None:
    command = [find_binary(), "plan", "--json", "--model", "vit-base", "--cluster", "T4-16G:2"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert "not all output was written" in done.stderr
    assert "No space left on device" in done.stderr


def test_a_config_of_hugging_face_is_a_model(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps({
        "model_type": "llama", "hidden_size": 256, "num_hidden_layers": 6, "vocab_size": 1000,
        "num_attention_heads": 8, "intermediate_size": 1024, "max_position_embeddings": 512,
        "architectures": ["LlamaForCausalLM"],
    }))  # fmt: skip
    plan = planned("--model", str(config), "--cluster", "T4-16G:2", "--global-batch", "8")
    assert plan["stages"][-1]["layers"][1] == 8


def test_a_cluster_may_be_a_file(tmp_path: Path) -> None:
    link = {"seconds": 1e-5, "bandwidth": 1e9}
    device = {"name": "cpu", "flops": 1e11, "bandwidth": 1e10, "launch": 1e-5, "memory": 10**10}
    cluster = {"schema": "paceline.cluster/1", "types": [device], "node": 2, "inner": link,
               "groups": [{"type": "cpu", "count": 2}], "outer": link}  # fmt: skip
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps(cluster))
    schema = json.loads((ROOT / "docs" / "schemas" / "cluster.json").read_text())
    Draft202012Validator(schema).validate(cluster)
    plan = planned("--model", "vit-base", "--cluster", str(path), "--global-batch", "8")
    assert ranks_of(plan) == [0, 1]
    path.write_text(json.dumps(cluster | {"gpus": 3}))
    refused = paceline("plan", "--model", "vit-base", "--cluster", str(path))
    assert refused.returncode == 2
    assert "gpus is no key that is known" in refused.stderr


def test_when_nothing_fits_the_smallest_change_is_named() -> None:
    done = paceline("plan", "--model", "llama-70b", "--cluster", "V100-32G:8")
    assert done.returncode == 5
    assert "error[PL-E122]: the model does not fit" in done.stderr
    # The text once named 64, because it tried only powers of two.
    found = re.search(r"fix    (\d+) devices instead of 8, or", done.stderr)
    assert found is not None and 32 < int(found[1]) <= 64, done.stderr
    fits = paceline("plan", "--model", "llama-70b", "--cluster", f"V100-32G:{found[1]}")
    assert fits.returncode == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "nothing was given to plan"),
        (("--model", "llama-8b", "train.py"), "a script and a model were given"),
        (("--model", "llama-8b"), "no cluster was given"),
        (("--model", "gpt-9", "--cluster", MIXED), "no model is known as gpt-9"),
        (("--model", "llama-8b", "--cluster", "X9000"), "is no type of the catalogue"),
        (("--model", "llama-8b", "--cluster", "H10"), "did you mean H100-80G?"),
        (("--model", "llama-8b", "--cluster", "a100-:4"), "did you mean A100-40G or A100-80G?"),
        (("--model", "llama-8b", "--cluster", "h100-80:8"), "did you mean H100-80G?"),
        (("--model", "llama-8b", "--cluster", "H100-80G:none"), "is not TYPE:COUNT"),
        (("--model", "llama-8b", "--cluster", "H100-80G:0"), "is not TYPE:COUNT"),
        (("--model", "llama-8b", "--cluster", MIXED, "--only", "ep=2"), "is not AXIS=VALUE"),
        (("--model", "llama-8b", "--cluster", MIXED, "--only", "schedule=foo"),
         "schedule is one of none, gpipe, 1f1b"),
        (("--model", "llama-8b", "--cluster", MIXED, "--only", "pp=two"),
         "pipeline is a whole number"),
        (("--model", "llama-8b", "--cluster", MIXED, "--only", "pp=0"), "at least one stage"),
        (("--model", "llama-8b", "--cluster", MIXED, "--global-batch", "0"), "from 1 to 2^32"),
        (("--model", "/nowhere/config.json", "--cluster", MIXED), "there is no such file"),
        (("--model", "llama-8b", "--cluster", "/nowhere.json"), "there is no such file"),
        (("--cluster", MIXED, "nowhere.py"), "there is no such file"),
        (("--model", "lama-8b", "--cluster", MIXED), "did you mean llama-8b?"),
        (("--model", "llama-8b", "--cluster", "A100-80G:1, H100-80:8"), "did you mean H100-80G?"),
    ],
)
def test_what_cannot_be_planned_is_refused_with_its_reason(
    words: tuple[str, ...], says: str
) -> None:
    done = paceline("plan", *words)
    assert done.returncode in (2, 5), done.stdout
    assert says in done.stderr
    for part in ("  where  ", "  why    ", "  fix    "):
        assert part in done.stderr


@pytest.mark.parametrize(("kind", "says"), [("pipe", "it is a pipe"), ("folder", "a directory"),
                                            ("device", "it is no regular file")])  # fmt: skip
def test_what_is_no_file_is_refused_and_never_waited_for(
    kind: str, says: str, tmp_path: Path
) -> None:
    path = tmp_path / "odd.json"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero")
    model, device = ("--model", "vit-base"), ("--cluster", "T4-16G:2")
    for words in (("--model", str(path), *device), (*model, "--cluster", str(path)),
                  (*device, str(path))):  # fmt: skip
        command = [find_binary(), "plan", *words]
        done = subprocess.run(command, check=False, capture_output=True, text=True,
                              timeout=DEADLINE_S)  # fmt: skip
        assert done.returncode == 2, done.stdout
        assert says in done.stderr and str(path) in done.stderr
        for part in ("  where  ", "  why    ", "  fix    "):
            assert part in done.stderr


def test_a_script_is_run_as_far_as_its_model(tmp_path: Path) -> None:
    example = ROOT / "examples" / "parallel.py"
    words = (str(example), "--checkpoint", str(tmp_path / "no"), "--global-batch", "12")
    plan = planned("--cluster", "H100-80G:2", *words)
    assert plan["stages"][-1]["layers"][1] == 7
    assert plan["global_batch"] == 12
    other = planned("--cluster", "H100-80G:2", "--global-batch", "64", "--only", "pp=2", *words)
    assert (other["global_batch"], len(other["stages"])) == (64, 2)
    assert not (tmp_path / "no").exists()


def test_the_case_of_a_device_does_not_matter() -> None:
    words = ("--model", "vit-base", "--global-batch", "8")
    assert planned("--cluster", "h100-80g:2", *words) == planned("--cluster", "H100-80G:2", *words)


def test_a_plan_of_one_replica_is_told_in_the_singular(tmp_path: Path) -> None:
    done = paceline("plan", "--model", "vit-base", "--cluster", "H100-80G:1", "--global-batch", "1")
    assert "1 replica with 1 sample, in 1 pass" in done.stdout, done.stdout


def test_the_help_of_a_script_is_shown(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import argparse\nargparse.ArgumentParser(description='It trains.')"
                      ".parse_args()\n")  # fmt: skip
    done = paceline("plan", "--cluster", "H100-80G:2", str(script), "--help")
    assert done.returncode == 2
    assert "It trains." in done.stdout
    assert "paceline plan --help for the flags" in done.stderr


def test_a_script_without_a_model_is_told_what_it_lacks(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import torch\nprint(torch.randn(3).tolist())\n")
    done = paceline("plan", "--cluster", "H100-80G:2", str(script))
    assert done.returncode == 2
    assert "error[PL-E121]: the script needs tensors with content" in done.stderr
    assert "train.py, line 2" in done.stderr


@pytest.mark.parametrize(("words", "what", "fix"), [
    (("llama-8b", "--cluster", "T4-16G:2"), "llama-8b is a model and not a script",
     "paceline plan --cluster T4-16G:2 --model llama-8b"),
    (("train.py", "--cluster", "T4-16G:2"), "what stands after the script",
     "paceline plan --cluster T4-16G:2 train.py"),
    (("--model", "llama-8b", "--cluster", "T4-16G:9000000"), "are more than 1000000", "--cluster"),
])  # fmt: skip
def test_what_stands_in_the_wrong_place_is_told(words: tuple[str, ...], what: str,
                                                fix: str) -> None:  # fmt: skip
    done = paceline("plan", *words)
    assert done.returncode == 2
    assert what in done.stderr and f"  fix    {fix}" in done.stderr, done.stderr
