package series

// row is one metric of a job.
type row struct {
	name      string // without paceline_ and the _total of a counter
	help      string
	label     string // "": one series
	values    []string
	isCounter bool
}

// rows are those metrics of docs/metrics.md that a master tells. A test compares them.
var rows = []row{
	{name: "phase", help: "1 for the phase that the job is in",
		label: "phase", values: []string{"waiting", "starting", "running", "stopping", "finished"}},
	{name: "generation", help: "generation of the current world; 0 between worlds"},
	{name: "world_ranks", help: "ranks of the current world"},
	{name: "step", help: "highest known step, absolute if the script reports it, else counted; " +
		"-1 before the first"},
	{name: "last_step_timestamp_seconds", help: "when the last step was made that this master " +
		"has heard of; before that, its own start"},
	{name: "steps_per_second", help: "steps a second of the last minute; 0 if not known"},
	{name: "goodput_ratio", help: "share of the seated ranks' time since the first world was " +
		"formed in which steps were made that no later attempt repeated; redone steps, " +
		"detection, restarts, evaluation and waiting for data, saves and stragglers do not " +
		"count"},
	{name: "mfu_ratio", help: "model FLOPs utilization since the first world was formed: the " +
		"model's arithmetic of the steps that count, of what the seated ranks' devices could do " +
		"at their peak; a minute behind; 0 if not known, as without a plan"},
	{name: "rank_seconds", help: "time of all ranks' places by class, as in `paceline goodput`; " +
		"a class may lose time to another one when a failure shows that steps are lost",
		label: "class", values: []string{
			"productive", "evaluation", "unproductive_checkpoint_save", "data_loading_sync",
			"straggler_wait", "wasted_progress", "detection", "hang", "decision",
			"waiting_for_nodes", "program_startup", "infrastructure_recovery",
			"unproductive_checkpoint_restore", "compilation", "stopping", "spare", "unknown",
		}},
	{name: "restarts", help: "worlds formed after the first", isCounter: true},
	{name: "failures", help: "failures charged to the restart budget", isCounter: true},
	{name: "hang_open", help: "1 while a hang lasts about which nothing has been done"},
	{name: "nodes", help: "nodes by state",
		label: "state", values: []string{"evicted", "left", "lost", "seated", "spare"}},
	{name: "ranks", help: "ranks by state",
		label: "state", values: []string{"exited", "running", "starting", "stepping"}},
	{name: "slow_ranks", help: "ranks whose own work takes longer than their peers'"},
	{name: "slow_cost_ratio", help: "share of the speed that the slowest of them costs"},
	{name: "checkpoint_memory_step", help: "newest step that every rank of the world has in " +
		"memory; -1 for none"},
	{name: "checkpoint_storage_step", help: "newest step whose checkpoint is complete in " +
		"storage; -1 for none"},
	{name: "checkpoint_storage_timestamp_seconds", help: "when it was complete; 0 for none"},
	{name: "checkpoint_storage_bytes", help: "size of the newest checkpoint in storage"},
	{name: "checkpoint_writing", help: "1 while a checkpoint is on its way to storage"},
	{name: "checkpoint_ok", help: "0 if the last step that was due did not reach storage"},
	{name: "checkpoint_commits", help: "checkpoints that reached storage, over the whole job",
		isCounter: true},
	{name: "checkpoint_restored_step", help: "step after which the newest world went on; -1 if " +
		"it began anew"},
	{name: "checkpoint_restores", help: "worlds that went on from memory (of any host) or " +
		"storage",
		label: "from", values: []string{"memory", "storage"}, isCounter: true},
}
