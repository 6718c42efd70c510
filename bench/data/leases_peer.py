"""DLRover's sharding client against its own local master; run by leases.py.

    VENV/bin/python -m bench.data.leases_peer 8 3.0

VENV has dlrover[k8s]==0.6.1 and protobuf.

One task at a time and worker, of one sample each: get_task, then report_task_result. Prints tasks a
second of all workers together and what a worker waits for get_task.
"""

# This runs in the peer's own environment.
# pyright: reportMissingImports=false

import json
import socket
import subprocess
import sys
import time

SHARDS = 40_000  # in one of its epochs; it keeps 50,000 in memory at most


def serve(port: int) -> None:
    import tornado.web  # noqa: F401  its master needs it imported before
    from dlrover.python.master.local_master import LocalJobMaster
    from dlrover.python.scheduler.job import LocalJobArgs

    args = LocalJobArgs("local", "default", "bench")
    args.initilize()
    master = LocalJobMaster(port, args)
    master.prepare()
    print("serving", flush=True)
    time.sleep(3600)


def work(port: int, rank: int, seconds: float) -> None:
    from dlrover.python.elastic_agent.master_client import GrpcMasterClient

    client = GrpcMasterClient(f"127.0.0.1:{port}", rank, "worker", 5)
    client.report_dataset_shard_params(
        batch_size=1, num_epochs=1000, dataset_size=SHARDS, num_minibatches_per_shard=1,
        dataset_name="bench", task_type=0, storage_type="table")
    sys.stdin.readline()
    until = time.perf_counter() + seconds
    tasks, waits = 0, []
    while (now := time.perf_counter()) < until:
        task = client.get_task("bench")[1]
        waits.append(time.perf_counter() - now)
        client.report_task_result("bench", task.task_id, "")
        tasks += 1
    waits.sort()
    print(json.dumps({"tasks": tasks, "p99": waits[len(waits) * 99 // 100]}), flush=True)


def start(*words: str) -> "subprocess.Popen[str]":
    return subprocess.Popen([sys.executable, __file__, *words], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def main() -> None:
    words = sys.argv[1:]
    if words[0] == "serve":
        return serve(int(words[1]))
    if words[0] == "work":
        return work(int(words[1]), int(words[2]), float(words[3]))
    workers, seconds = int(words[0]), float(words[1])
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    master = start("serve", str(port))
    try:
        assert master.stdout is not None
        while "serving" not in master.stdout.readline():
            assert master.poll() is None, "its master did not start"
        running = [start("work", str(port), str(rank), str(seconds)) for rank in range(workers)]
        time.sleep(4.0)  # imports
        for one in running:
            assert one.stdin is not None
            one.stdin.write("go\n")
            one.stdin.flush()
        told = [json.loads(one.communicate()[0].splitlines()[-1]) for one in running]
    finally:
        master.kill()
        master.wait()
    print(json.dumps({"rate": sum(one["tasks"] for one in told) / seconds,
                      "p99": max(one["p99"] for one in told)}))
    return None


if __name__ == "__main__":
    main()
