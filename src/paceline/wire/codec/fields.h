#pragma once

// The fields that a struct and its message share, listed once for both directions, so that to_proto
// and from_proto stay equal. Only simple fields: numbers, flags, ids, durations, enums and bounded
// text. Nested and optional parts are written out there.

// clang-format off
#define PACELINE_TIMERS(F) F(heartbeat_interval) F(lost_after) F(lost_after_max) \
  F(reattach_window) F(join_window) F(shrink_after) F(start_timeout) F(stop_grace) \
  F(kill_patience) F(restart_delay) F(restart_delay_max) F(restart_window) F(reconnect_delay) \
  F(reconnect_delay_max) F(connect_timeout) F(orphan_after) F(finish_linger) F(storage_wait) \
  F(settle) F(respawn_delay) F(respawn_delay_max)
#define PACELINE_BUDGETS(F) F(no_progress_failures) F(node_restarts) F(solo_generations) \
  F(heartbeats_per_second_max) F(unproven_connections_max)
#define PACELINE_JOB_SPEC(F) F(nodes_min) F(nodes_max) F(unit) F(nproc_per_node) F(spares) \
  F(replace_nodes) F(is_placed) F(only_tells_hangs) F(hang_act_after) F(efficiency_least) F(seed) \
  F(slow_act_after) F(memory_node) F(memory_most)

#define PACELINE_EXIT_CAUSE(F) F(kind) F(code) F(cgroup_oom) F(port_taken) F(asked) \
  F(fingerprint) F(headline) F(is_final) F(is_repeatable) F(cause_class) F(role) F(advice) \
  F(memory_limit)
#define PACELINE_RANK_REPORT(F) F(generation) F(rank) F(local_rank) F(pid) F(state) F(step) \
  F(step_count) F(steps_total) F(saved_step) F(saved_files) F(is_quiet) F(is_own_step) \
  F(ended_for)
#define PACELINE_COLLECTIVE_SEEN(F) F(group) F(sequence) F(operation) F(dtype) F(bytes) F(site) \
  F(age) F(is_complete)
#define PACELINE_STACK_FRAME(F) F(file) F(line) F(function)
#define PACELINE_RANK_EVIDENCE(F) F(rank) F(has_ring) F(phase) F(in_phase) F(quiet_for) \
  F(step_p99) F(phase_longest) F(stopped_by) F(stopped_child) F(watched) F(cpu) F(moved) \
  F(waits_in) F(no_stack) F(pid) F(is_pressed) F(idle_for) F(raised) F(raised_as) F(raised_for) \
  F(raised_is_final)
#define PACELINE_EVIDENCE(F) F(generation) F(round)
#define PACELINE_NODE_REPORT(F) F(name) F(boot_id) F(agent_incarnation) F(agent_pid) F(address) \
  F(host) F(slots) F(incarnation) F(store_port) F(version_major) F(version_minor) F(job_id) \
  F(term) F(generation) F(bulk)
#define PACELINE_NODE_CHECK(F) F(state) F(reason) F(numbers) F(round)
#define PACELINE_JOURNAL_PIECE(F) F(term) F(from) F(is_whole)
#define PACELINE_JOURNAL_HELD(F) F(taken)
#define PACELINE_JOURNAL_WANTED(F) F(from)
#define PACELINE_HEARTBEAT(F) F(generation) F(store_port) F(loop_delay) F(awaits_starter)
#define PACELINE_BAD_LOSS(F) F(count) F(step) F(value) F(usual)
#define PACELINE_STEP_SUMS(F) F(steps) F(whole) F(own) F(data) F(waited) F(is_piped)
#define PACELINE_RANK_SAMPLE(F) F(generation) F(rank) F(shares_batch)
#define PACELINE_RANK_TIMES(F) F(generation) F(rank) F(has_ended) F(is_piped)
#define PACELINE_TIME_ACCOUNTED(F) F(generation) F(ranks) F(steps)
#define PACELINE_SLOW_FINDING(F) F(node) F(is_whole_node) F(is_data) F(excess) F(cost) \
  F(steps_a_day)
#define PACELINE_SLOW_STATUS(F) F(sentence) F(excess) F(cost) F(is_data)
#define PACELINE_HANG_STATUS(F) F(seq) F(sentence)
#define PACELINE_PLAN_NOTE(F) F(generation) F(words) F(because) F(step) F(moves)
#define PACELINE_PLAN_STATUS(F) F(generation) F(words) F(sentence) F(step)
#define PACELINE_MODEL_DESCRIBED(F) F(name) F(parameters) F(global_batch)
#define PACELINE_PARALLEL_PLAN_CHOSEN(F) F(generation) F(words) F(before) F(because) F(step)
#define PACELINE_STORE(F) F(host) F(port)
#define PACELINE_ASSIGNMENT(F) F(kind) F(generation) F(seat) F(seat_count) F(first_rank) \
  F(rank_count) F(world_size) F(restart_count) F(fresh_starter) F(solo_first) F(solo_last) \
  F(grace) F(exit_code) F(reason) F(signal) F(is_over) F(check_round) \
  F(memory_limit)
#define PACELINE_REFUSAL(F) F(code) F(what) F(why) F(fix) F(retry)

#define PACELINE_SEAT(F) F(node) F(first_rank) F(rank_count)
#define PACELINE_NODE_JOINED(F) F(node) F(name) F(boot_id) F(address) F(slots) F(returned) \
  F(incarnation)
#define PACELINE_NODE_LOST(F) F(node) F(name) F(silent_for) F(finished) F(explains) F(reason)
#define PACELINE_NODE_LEFT(F) F(node) F(name) F(reason)
#define PACELINE_NODE_EVICTED(F) F(node) F(name) F(reason) F(host)
#define PACELINE_NODE_CHECKED(F) F(node) F(name) F(ok) F(reason) F(numbers) F(round)
#define PACELINE_NODE_CHECK_ORDERED(F) F(node) F(name) F(round) F(is_slow) F(reason)
#define PACELINE_LINK_TRY(F) F(round) F(peer) F(address) F(chunks)
#define PACELINE_LINK_TESTED(F) F(round) F(peer) F(gb_s) F(problem)
#define PACELINE_PAIRS_JUDGED(F) F(nodes) F(pairs) F(took) F(slowest)
#define PACELINE_PAIR_LINK(F) F(a) F(b) F(problem)
#define PACELINE_DRILL_STRUCK(F) F(node) F(name) F(generation) F(has_rank) F(rank) F(kind) \
  F(loss) F(reason)
#define PACELINE_RANK_FAILED(F) F(node) F(node_name) F(generation) F(rank) F(step) F(step_count) \
  F(charged) F(explains) F(died_for)
#define PACELINE_RECOVERY_DECIDED(F) F(rung) F(blamed) F(has_blamed) F(blamed_name) F(step) \
  F(saved_step) F(reason)
#define PACELINE_WORLD_FORMED(F) F(solo_last) F(fresh_starter) F(fresh_node) F(reason)
#define PACELINE_WORLD_RUNNING(F) F(generation) F(step) F(began_at) F(has_no_step) F(is_own_count)
#define PACELINE_WORLD_ENDED(F) F(generation) F(step) F(reason) F(step_count) F(lost_steps) \
  F(lost_work) F(still_for) F(reached)
#define PACELINE_SOLO_RESTARTED(F) F(node) F(name) F(generation) F(reason)
#define PACELINE_PROGRESS_MADE(F) F(step) F(step_count) F(evidence) F(is_lasting)
#define PACELINE_AGENT_RETURNED(F) F(node) F(name) F(ranks)
#define PACELINE_GROWTH_PLANNED(F) F(node) F(name) F(saved_step) F(reason)
#define PACELINE_SIZE_CHOSEN(F) F(nodes) F(saved_step) F(at_once) F(reason) F(is_measured)
#define PACELINE_NODE_MEMORY(F) F(used) F(limit) F(bound)
#define PACELINE_MEMORY_SHORT(F) F(node) F(name) F(generation) F(next_limit) F(left) F(grows) \
  F(is_kill) F(saved_step) F(reason)
#define PACELINE_STOP_DECIDED(F) F(exit_code) F(grace) F(reason) F(is_asked) F(signal)
#define PACELINE_JOB_FINISHED(F) F(exit_code) F(reason)
#define PACELINE_LAST_STEPS(F) F(step) F(step_count) F(reached)
#define PACELINE_JOB_RESUMED(F) F(reason) F(anew)
#define PACELINE_WISH_CHANGED(F) F(name) F(incarnation) F(reason)
#define PACELINE_MEMO(F) F(charged_failures) F(failures_without_progress) F(same_failure_count) \
  F(last_fingerprint) F(last_headline) F(last_failure_step) F(step_max) F(worlds) \
  F(final_reason) F(chosen_nodes) F(is_size_measured)
#define PACELINE_NODE_NOTICED(F) F(node) F(name) F(saved_step) F(reason)
#define PACELINE_HANG_JUDGED(F) F(generation) F(hang) F(acts) F(sentence) F(quiet_for) F(later) \
  F(end_follows)
#define PACELINE_HANG_ENDED(F) F(generation) F(lasted)
#define PACELINE_CHECKPOINT_NOT_STORED(F) F(directory) F(reason) F(generation) F(is_final)

#define PACELINE_CHECKPOINT_TERMS(F) F(directory) F(keep)
#define PACELINE_SAVED_STEP(F) F(generation) F(step) F(branch)
#define PACELINE_MEMORY_IMAGE(F) F(rank) F(place) F(world_size) F(file_bytes) F(file_root) \
  F(is_replica) F(is_copy) F(root)
#define PACELINE_SHARD_STATE(F) F(rank) F(is_durable) F(problem) F(took)
#define PACELINE_STORED_CHECKPOINT(F) F(name) F(job_id) F(world_size)
#define PACELINE_FETCH_FAILURE(F) F(rank) F(problem)
#define PACELINE_FETCH_ORDER(F) F(rank) F(root) F(name) F(is_urgent)
#define PACELINE_COMMIT_STATE(F) F(name) F(is_done) F(problem) F(bytes) F(has_own_parameters)
#define PACELINE_RESTORE(F) F(generation) F(from) F(world_size) F(name) F(reason)
#define PACELINE_CHECKPOINT_COMMITTED(F) F(name) F(directory) F(bytes) F(ranks_fixed)
#define PACELINE_CHECKPOINT_DAMAGED(F) F(name) F(node) F(node_name)

#define PACELINE_RANK_STATUS(F) F(rank) F(local_rank) F(pid) F(generation) F(state) F(step) \
  F(step_count) F(saved_step) F(exit)
#define PACELINE_NODE_STATUS(F) F(id) F(name) F(state) F(reason) F(address) F(agent_pid) \
  F(connected) F(silent_for) F(generation)
#define PACELINE_CHECKPOINT_STATUS(F) F(directory) F(memory_step) F(storage_step) \
  F(writing_step) F(storage_bytes) F(problem) F(restored) \
  F(restored_step) F(memory_restores) F(storage_restores) F(commits)
#define PACELINE_JOB_STATUS(F) F(job_id) F(name) F(phase) F(pending) F(master_pid) \
  F(master_incarnation) F(generation) F(world_size) F(restart_count) F(failures) F(step) \
  F(goodput) F(steps_per_second) F(steps_total) F(age) F(journal) F(last_seq) F(final_reason)
#define PACELINE_JOB_EVENT(F) F(seq) F(time_ns) F(kind) F(node) F(generation) F(sentence)
#define PACELINE_TASK_SPEC(F) F(workers) F(servers) F(evaluators) F(tables)
#define PACELINE_TASK(F) F(rank) F(node) F(slot) F(generation) F(restarts) F(is_done) F(host) \
  F(port)
#define PACELINE_TASKS_SCALED(F) F(workers) F(servers) F(reason)
#define PACELINE_TABLES_MOVED(F) F(from) F(to) F(reason)
#define PACELINE_TASK_STATUS(F) F(name) F(node) F(state) F(restarts) F(age) F(generation) \
  F(address) F(pid) F(note)
#define PACELINE_STOP_REQUEST(F) F(why) F(grace) F(exit_code) F(force) F(signal)
#define PACELINE_SCALE_REQUEST(F) F(nodes) F(at_once) F(dry_run) F(why) F(workers) F(servers)
#define PACELINE_SCALE_REPLY(F) F(refusal) F(workers) F(servers)
#define PACELINE_DRILL_REQUEST(F) F(kind) F(loss) F(node) F(dry_run) F(why)
#define PACELINE_DRILL_REPLY(F) F(refusal) F(fix) F(cost)
#define PACELINE_SIZE_STATUS(F) F(nodes_min) F(nodes_max) F(unit) F(chosen) F(can_keep) \
  F(is_measured) F(mode) F(best) F(advice) F(hindrance)
#define PACELINE_SIZE_SPEED(F) F(nodes) F(step_seconds) F(error) F(windows)
#define PACELINE_NODE_GONE(F) F(name) F(evidence) F(agent_pid)
#define PACELINE_WISH(F) F(seq) F(intent) F(size) F(spares)
#define PACELINE_SUMMARY(F) F(phase) F(pending) F(nodes) F(spares) F(step) F(goodput) F(last) \
  F(restart_count) F(memo) F(size_is_measured) F(size_refused) F(refusal)
#define PACELINE_MEASURE(F) F(name) F(of) F(value)
#define PACELINE_SIZE_WANTED(F) F(nodes) F(why)
#define PACELINE_NODE_PENDING(F) F(name) F(incarnation) F(reason)
#define PACELINE_NOTICE(F) F(name) F(left) F(why)
// clang-format on
