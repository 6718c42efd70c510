"""Answers requests from the versions of online_train.py.

    python examples/online_serve.py --serve runs/serve --port 8080
    curl -d '{"user": 17, "seen": [1, 2, 3], "ads": [7, 8]}' localhost:8080
    {"version": 12, "scores": [0.81, 0.14]}

Rows come from the newest version, and ONNX Runtime computes the dense part. Its weights are inputs,
so a new version needs no new session. There is no torch in this process.
"""

import argparse
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper
from paceline.errors import DataError
from paceline.serving import Reader, Version

WEIGHTS = {"deep.0.weight": ["hidden", "wide"], "deep.0.bias": ["hidden"],
           "deep.2.weight": [1, "hidden"], "deep.2.bias": [1]}


def graph_of_click() -> bytes:
    """The dense part of click_model.Click: rows and weights in, a score for each ad out."""
    nodes = [
        helper.make_node("Mul", ["user", "ad"], ["product"]),
        helper.make_node("ReduceSum", ["product", "axis"], ["liking"], keepdims=0),
        helper.make_node("Concat", ["user", "seen", "ad"], ["all"], axis=1),
        helper.make_node("Gemm", ["all", *list(WEIGHTS)[:2]], ["hidden"], transB=1),
        helper.make_node("Relu", ["hidden"], ["active"]),
        helper.make_node("Gemm", ["active", *list(WEIGHTS)[2:]], ["deep"], transB=1),
        helper.make_node("Squeeze", ["deep", "axis"], ["flat"]),
        helper.make_node("Add", ["liking", "flat"], ["logit"]),
        helper.make_node("Sigmoid", ["logit"], ["score"]),
    ]
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["ads", "dim"])
              for name in ("user", "seen", "ad")]
    inputs += [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
               for name, shape in WEIGHTS.items()]
    axis = helper.make_tensor("axis", TensorProto.INT64, [1], [1])
    score = helper.make_tensor_value_info("score", TensorProto.FLOAT, ["ads"])
    graph = helper.make_graph(nodes, "click", inputs, [score], [axis])
    opset = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=8)
    onnx.checker.check_model(model)
    return model.SerializeToString()


class Scorer:
    """Scores of a request, all from one version."""

    def __init__(self, directory: str) -> None:
        self.reader = Reader(directory)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session: Any = onnxruntime.InferenceSession(
            graph_of_click(), options, providers=["CPUExecutionProvider"])

    def score(self, user: int, seen: list[int], ads: list[int]) -> tuple[Version, list[float]]:
        version = self.reader.version()
        count = len(ads)
        feeds = {
            "user": np.repeat(version.rows("users", [user]), count, axis=0),
            "seen": np.repeat(
                version.rows("ads", seen).mean(axis=0, keepdims=True), count, axis=0),
            "ad": version.rows("ads", ads),
            **{name: version.dense(name) for name in WEIGHTS},
        }
        [scores] = self._session.run(["score"], feeds)
        return version, scores.tolist()


class Handler(BaseHTTPRequestHandler):
    scorer: Scorer

    def do_POST(self) -> None:
        try:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            version, scores = self.scorer.score(asked["user"], asked["seen"], asked["ads"])
        except DataError as error:
            self._answer(503, {"error": str(error)})
        except (ValueError, KeyError, TypeError) as error:
            self._answer(400, {"error": f"{type(error).__name__}: {error}"})
        else:
            self._answer(200, {"version": version.number, "made": version.made, "scores": scores})

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *_: object) -> None: ...  # noqa: A002


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--serve", required=True, help="the folder of Publish")
    parser.add_argument("--port", type=int, default=8080, help="0: any free one")
    args = parser.parse_args()
    Handler.scorer = Scorer(args.serve)
    server = ThreadingHTTPServer(("127.0.0.1", args.port), Handler)
    print(f"serving at http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
