"""Which Python tests are long. `make test` runs the others, `make test-all` the long ones."""

from __future__ import annotations

import pytest

# Files whose tests start many jobs or processes, wait for real outages, or train.
LONG_FILES = {
    "examples_test.py",
    "test_checkpoint_faults.py",
    "test_checkpoints.py",
    "test_crash_schedules.py",
    "test_cycles.py",
    "test_deleted_prefix.py",
    "test_elastic_loader.py",
    "test_far_disk.py",
    "test_foreign_launchers.py",
    "test_foreign_world.py",
    "test_full_storage.py",
    "test_hosts.py",
    "test_layouts.py",
    "test_lightning.py",
    "test_object_store.py",
    "test_object_store_wire.py",
    "test_one_writer_s3.py",
    "test_own_parameters.py",
    "test_peers.py",
    "test_peers_storage.py",
    "test_shared_reading.py",
    "test_stalled_disk.py",
    "test_transformers.py",
    "test_world_size.py",
}

# Tests of these files that are in `make test` all the same: the core of what the file is about.
SHORT_TESTS = {
    "test_a_killed_rank_goes_on_from_memory",
    "test_a_lost_host_costs_a_fetch",
    "test_a_lost_node_is_replaced_and_goes_on_from_memory",
    "test_a_new_job_goes_on_from_storage",
    "test_flags_that_make_no_sense_are_refused_before_anything_starts",
    "test_hello_keeps_its_count_over_a_failure",
    "test_three_hosts_train_when_one_is_late",
    "test_what_torch_refuses_is_refused_in_four_parts",
    "test_workers_change_nothing_and_what_was_read_ahead_does_not_count",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        name = getattr(item, "originalname", item.name)
        if item.path.name in LONG_FILES and name not in SHORT_TESTS:
            item.add_marker(pytest.mark.long)
