"""Which Python tests are long. `make test` runs the others, `make test-all` the long ones."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

CACHE = Path(__file__).resolve().parents[1] / "build" / "test-cache"

# Files whose tests start many jobs or processes, wait for real outages, or train.
LONG_FILES = {
    "examples_test.py",
    "test_checkpoint_faults.py",
    "test_checkpoints.py",
    "test_crash_schedules.py",
    "test_data_table.py",
    "test_cycles.py",
    "test_deleted_prefix.py",
    "test_denied_store.py",
    "test_drills.py",
    "test_elastic_loader.py",
    "test_far_disk.py",
    "test_foreign_launchers.py",
    "test_foreign_world.py",
    "test_full_run_dir.py",
    "test_full_storage.py",
    "test_gpu_hangs.py",
    "test_gpu_plans.py",
    "test_gpu_saves.py",
    "test_gpu_training.py",
    "test_hang_cases.py",
    "test_host_addresses.py",
    "test_hosts.py",
    "test_layouts.py",
    "test_live_drills.py",
    "test_live_streams.py",
    "test_load_from_store.py",
    "test_lost_master.py",
    "test_lightning.py",
    "test_node_checks.py",
    "online_test.py",
    "test_object_store.py",
    "test_object_store_wire.py",
    "test_one_writer_s3.py",
    "test_own_parameters.py",
    "test_peers.py",
    "test_peers_storage.py",
    "test_rescue.py",
    "test_run_dir_outage.py",
    "test_shared_reading.py",
    "test_slow_ranks.py",
    "test_stalled_disk.py",
    "test_stream_tables.py",
    "test_table_hosts.py",
    "test_torchrun_cases.py",
    "test_trace.py",
    "test_trainer_progress.py",
    "test_transformers.py",
    "test_transformers_best.py",
    "test_world_size.py",
}

# Files whose tests `make test-diagnosis` alone runs: each waits for its own hang to be judged, and
# what they are about is in the other halves by test_hangs.py, the drills and the rules' own tests.
DIAGNOSIS_FILES = {"test_hang_cases.py"}

# Tests of these files that are in `make test` all the same: the core of what the file is about.
SHORT_TESTS = {
    "test_a_kind_that_needs_consent_is_skipped_and_never_passed",
    "test_drills_end_as_expected[master_kill]",
    "test_a_rank_is_killed_once_and_why_says_that_it_was_a_drill",
    "test_what_makes_no_sense_is_refused",
    "test_a_killed_rank_goes_on_from_memory",
    "test_a_lost_node_is_replaced_and_goes_on_from_memory",
    "test_rows_that_ranks_cannot_share_are_refused[unseeded]",
    "test_a_new_job_goes_on_from_storage",
    "test_flags_that_make_no_sense_are_refused_before_anything_starts",
    "test_a_check_that_cannot_start_is_refused_at_once[None-0-No such file or directory]",
    "test_hello_keeps_its_count_over_a_failure",
    "test_kills_leave_every_record_acknowledged_once",
    "test_three_hosts_train_when_one_is_late",
    "test_what_torch_refuses_is_refused_in_four_parts",
    "test_workers_change_nothing_and_what_was_read_ahead_does_not_count",
    "test_a_run_of_bad_losses_is_one_line",
}

# Tests of other files that are long all the same: each costs several starts of torch, or waits for
# an outage, and what it is about is in `make test` by another test. A name with its parameters is
# that case alone.
LONG_TESTS = {
    "test_a_job_finds_its_size_and_the_next_run_begins_with_it",
    "test_advice_changes_nothing_and_a_plain_loader_is_told",
    "test_a_claim_of_another_host_that_is_silent_is_taken_over",
    "test_a_command_that_hangs_is_killed_and_told_once",
    "test_a_frozen_agent_does_not_keep_its_ranks_beyond_the_job",
    "test_a_host_that_is_cut_off_loses_and_repeats_nothing",
    "test_a_job_that_ends_while_a_node_is_silent_starts_no_agents_again[flags1]",
    "test_a_new_keeper_goes_on_above_what_an_earlier_one_has_stored",
    "test_a_node_that_freezes_counts_nothing_when_it_thaws",
    "test_a_rank_that_raised_and_does_not_end_is_named",
    "test_a_rank_that_takes_its_time_is_named_and_left_alone",
    "test_a_state_of_too_many_plain_values_is_refused_at_its_save",
    "test_a_leak_is_met_before_the_kill_and_no_rank_is_restarted",
    "test_a_limit_of_a_cgroup_around_the_job_is_told",
    "test_a_script_alone_passes_over_what_was_found_damaged",
    "test_a_script_may_end_while_memory_is_still_being_found",
    "test_a_table_of_any_database",
    "test_a_world_that_shrinks_and_grows_reads_the_same_samples",
    "test_an_import_follows_links_to_regular_files_alone",
    "test_an_import_is_a_checkpoint_like_any",
    "test_another_process_may_save_after_a_close",
    "test_byte_ranges_in_workers",
    "test_dcp_loads_an_export_without_paceline",
    "test_kills_at_random_leave_every_count_exact[2]",
    "test_lines[]",
    "test_parquet",
    "test_process_groups_at_one_address_one_after_the_other",
    "test_ranks_save_and_others_load",
    "test_row_30_an_agent_that_ran_out_of_memory_costs_no_save",
    "test_rows_and_dense_parameters_count_each_sample_once",
    "test_shares_by_speed_leave_every_count_exact_over_kills",
    "test_table",
    "test_tar",
    "test_the_last_save_of_a_script_that_ends_is_whole",
    "test_the_served_counts_are_exact_although_a_task_is_killed",
    "test_they_come_back_from_memory",
    "test_two_on_one_host_are_refused_and_one_after_the_other_is_not[False-False]",
    "test_two_on_one_host_are_refused_and_one_after_the_other_is_not[False-True]",
    "test_two_on_one_host_are_refused_and_one_after_the_other_is_not[True-True]",
    "test_what_cannot_be_exported_is_said",
    "test_workers_change_nothing_and_what_was_read_ahead_does_not_count[options4]",
    "test_wrapped_models_are_the_same_to_it",
}


def pytest_configure() -> None:
    """Starters learn lists of imports: into the checkout, and not into the user's cache.

    tests/k8s/binaries/programs.py still finds the user's. A shell that runs the tests in the
    background may ignore SIGINT, and each command that a test starts would, too.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # A launcher that inherits an ignored SIGHUP, as from nohup, goes on ignoring it.
    if is_main and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    user_cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    os.environ.setdefault("PACELINE_USER_CACHE", user_cache)
    os.environ["XDG_CACHE_HOME"] = str(CACHE)
    os.environ["PACELINE_HISTORY_PLACE"] = "off"


def is_long(item: pytest.Item) -> bool:
    names = {item.name, getattr(item, "originalname", item.name)}
    if names & LONG_TESTS:
        return True
    return item.path.name in LONG_FILES and not names & SHORT_TESTS


def _of_target(target: str, variable: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(os.environ.get(variable) != "1", reason=f"`make {target}` runs it")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if is_long(item):
            item.add_marker(pytest.mark.long)
        if item.path.name in DIAGNOSIS_FILES:
            item.add_marker(_of_target("test-diagnosis", "PACELINE_DRILLS"))
        elif item.get_closest_marker("long") and item.path.parent.name == "parallel":
            item.add_marker(_of_target("test-plan", "PACELINE_PLANS"))
