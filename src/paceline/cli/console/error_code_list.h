// All error codes but those of data_error_codes.h, with the texts of `paceline why CODE` and
// docs/errors.md.
#pragma once

#include "paceline/cli/console/error_codes.h"
#include "paceline/cli/console/exit_code.h"

namespace paceline::cli {

// PL-E001 … 019 command line and settings · 020 … 029 run directories and jobs · 030 … 059 control
// plane and host · 060 … 069 training · 070 … 079 waiting · 099 ours · 101 … security · PL-W
// warnings.
inline constexpr ErrorCode kJobErrorCodes[] = {
    {"PL-E001", "unknown flag", kExitUsage,
     "The command has no flag of that name. Flags of `paceline run` stand before the script; "
     "everything after the script belongs to the script. torchrun's flags may be shortened as "
     "torchrun allows it, paceline's own must be written out."},
    {"PL-E002", "a flag lacks its value, or a switch has one", kExitUsage,
     "Give a value as `--flag value` or `--flag=value`. A value that starts with a dash needs the "
     "form with `=`. A switch has no value."},
    {"PL-E003", "a flag's value is not usable", kExitUsage,
     "The value has the wrong form or is out of range. Durations carry a unit (250ms, 30s, 5m, "
     "1h), sizes too (512MiB, 10GiB)."},
    {"PL-E004", "an abbreviated flag fits several flags", kExitUsage,
     "Write enough letters of the flag that only one flag fits, or all of them."},
    {"PL-E005", "two flags exclude each other", kExitUsage,
     "Each of them is valid alone. The message says why they cannot be used together."},
    {"PL-E006", "unknown command", kExitUsage,
     "`paceline --help` lists the commands. Commands are never abbreviated."},
    {"PL-E007", "no script was given", kExitUsage,
     "`paceline run` needs what torchrun needs: flags, then a script, a module (-m) or a program "
     "(--no-python), then its arguments."},
    {"PL-E008", "the script cannot be read", kExitUsage,
     "The path is taken relative to the current directory. With -m the name is a module, with "
     "--no-python it is a program looked up in PATH."},
    {"PL-E009", "the Python interpreter cannot be used", kExitUsage,
     "Ranks run with the interpreter that stands beside the paceline binary, else with that of the "
     "active virtual environment, else with python3 of PATH; `launch.python` or the variable "
     "PYTHON_EXEC chooses another. It must be 3.11 or newer and able to import the paceline "
     "package. "
     "If this user cannot run the interpreter of the environment, no other one takes its place."},
    {"PL-E010", "an argument too many or too few", kExitUsage,
     "`paceline COMMAND --help` shows what the command takes."},
    {"PL-E011", "a settings file is not valid TOML", kExitUsage,
     "The message shows the line where reading stopped. Strings need quotes: lost_after = \"1s\"."},
    {"PL-E012", "a settings file has an unknown setting", kExitUsage,
     "Unknown settings are refused, because a misspelt one would have no effect and nobody would "
     "notice. `paceline config show` lists all of them with their values; docs/guides/settings.md "
     "explains them."},
    {"PL-E013", "a setting has an unusable value", kExitUsage,
     "The value has another type than the setting, or is out of range. Durations and sizes are "
     "strings with a unit."},
    {"PL-E014", "a settings file cannot be read", kExitUsage,
     "It exists and could not be opened, is not a regular file, or is larger than 1 MiB."},
    {"PL-E015", "an environment variable has an unusable value", kExitUsage,
     "Settings can be given as PACELINE_<SECTION>_<NAME>, torchrun's flags as PET_<NAME>. The "
     "value "
     "follows the same rules as the flag's."},

    {"PL-E016", "not all output was written", kExitTrainingFailed,
     "Standard output accepted only a part: its disk is full, or the program that reads it "
     "has closed its end. The output is incomplete."},
    {"PL-E017", "a rule for a class of failures is not usable", kExitUsage,
     "A rule file has a line that cannot be read, a pattern that is no regular expression or "
     "matches the empty text, a class that stands twice, or an example that belongs to another "
     "rule. The message names the line."},
    {"PL-E018", "a removal needs an answer", kExitUsage,
     "`paceline clean --older-than` with less than an hour takes the run directories of nearly all "
     "jobs that have ended. It lists them and asks. Where no terminal is there to ask on, --yes is "
     "the answer, and --dry-run only lists."},
    {"PL-E020", "the run directory belongs to another run", kExitUsage,
     "A run directory holds one job. `--resume` goes on with that job; another `--run-dir` starts "
     "a "
     "new one. `paceline clean DIR` removes the directory of a job of which nothing runs any more. "
     "After a reboot, or in another container, the command that started the job goes on with it "
     "without `--resume`."},
    {"PL-E021", "the run directory cannot be used", kExitUsage,
     "It must belong to you and be writable. If it does not exist, paceline creates it with mode "
     "0700."},
    {"PL-E022", "no job was found", kExitUnreachable,
     "No job of this user runs on this host, and none has run here before. Name a run directory: "
     "`paceline status --job ./runs/NAME`. A command that changes a job, such as `paceline stop`, "
     "takes only a job of this directory, unless `--job` names another."},
    {"PL-E023", "several jobs may be meant; say which one", kExitUsage,
     "`paceline ps` lists them; `--job ID` or `--job RUN_DIR` chooses."},
    {"PL-E024", "there is no such job", kExitUnreachable,
     "Jobs are found by id in the runtime directory of this user on this host, or by their run "
     "directory."},
    {"PL-E025", "a file of the run directory is damaged", kExitTrainingFailed,
     "job.json or another small file was changed, or cut off, since paceline wrote it. The journal "
     "is not affected: `paceline events --job RUN_DIR` reads only the journal."},
    {"PL-E026", "there is nothing to resume", kExitUsage,
     "`--resume` needs a run directory that has a journal, and whose job has not ended with exit "
     "code 0."},
    {"PL-E027", "the job still runs", kExitUsage,
     "`paceline stop` ends it, `paceline attach` shows it."},
    {"PL-E028", "the node has an agent already", kExitUsage,
     "Two agents of one node would manage the same ranks and the same checkpoints, so the second "
     "one ends before it changes anything. The lock of an agent that dies is released."},

    {"PL-E030", "the master does not answer", kExitUnreachable,
     "The command found the job's address but got no answer in time. The ranks may still be "
     "training: agents go on without a master, and `paceline run` starts a new one. `paceline "
     "status` then reads the journal instead. On several hosts look for a firewall or a wrong "
     "--rdzv-endpoint."},
    {"PL-E031", "the address to listen on is taken or not ours", kExitUsage,
     "Another process listens on that port, or the address belongs to no interface of this host. "
     "Without --rdzv-endpoint paceline takes a free port by itself."},
    {"PL-E032", "the journal cannot be written", kExitTrainingFailed,
     "The disk is full, or the directory became read-only. Ranks go on; decisions wait and are "
     "retried. At the start of a job it is an error at once."},
    {"PL-E033", "the run directory is on a file system without working locks", kExitUsage,
     "Two masters could then write the same journal. Put the run directory on a local disk; "
     "checkpoints may stay where they are."},
    {"PL-E034", "the journal is damaged", kExitTrainingFailed,
     "Records that were once written cannot be read, so paceline does not know the state of the "
     "job. Keep the file for analysis and use a new run directory; checkpoints are not affected."},
    {"PL-E035", "another master holds the journal", kExitTrainingFailed,
     "A job has one master. Another master of this job runs, so this one has ended."},
    {"PL-E036", "master and agent have incompatible versions", kExitUsage,
     "A master talks to agents of its own and of the previous minor version."},
    {"PL-E037", "the node's name is refused", kExitUsage,
     "Names have 1 to 128 of the characters A-Z a-z 0-9 . _ - and no leading dot. Two living "
     "nodes of a job cannot have one name. The first host keeps it while it is connected; the "
     "later host ends with this error, which names the first one's address. Without "
     "`--node-name` a node has its host's name. A rebooted host or a restarted agent gets its "
     "place back."},
    {"PL-E038", "the node does not fit the job", kExitUsage,
     "Every node must offer as many ranks as the job's --nproc-per-node."},
    {"PL-E039", "the job takes no more nodes", kExitUsage,
     "It has ended or is about to end, or holds its maximum of nodes and spares."},
    {"PL-E040", "the starter process cannot be started", kExitTrainingFailed,
     "The starter is the Python process that forks the ranks. Its log, starter.log in the run "
     "directory, has the traceback. With `launch.warm = false` ranks start without a starter."},
    {"PL-E041", "the runtime directory is not safe", kExitUsage,
     "Sockets and addresses are in a directory that must belong to you and have mode 0700. If it "
     "were a symbolic link or had another owner, another user could take over the sockets. "
     "`PACELINE_RUNTIME_DIR` names another directory."},
    {"PL-E042", "a message or file exceeds its bound", kExitTrainingFailed,
     "All messages and files that paceline reads have a largest size. If the job is really that "
     "large, this is a bug of paceline."},
    {"PL-E043", "an address cannot be used", kExitUsage,
     "The host name did not resolve within 10 minutes, or the port is not between 1 and "
     "65535. Addresses are HOST:PORT; IPv6 addresses are written in brackets."},
    {"PL-E044", "a process of the control plane keeps dying", kExitTrainingFailed,
     "The master or an agent ended several times right after its start. Its log in the run "
     "directory says why."},
    {"PL-E045", "a program that paceline needs is missing", kExitUsage,
     "`paceline submit --on kubernetes`, and every command with `--on kubernetes/…`, use "
     "kubectl of your PATH, with its configuration."},
    {"PL-E046", "the cluster refused", kExitUnreachable,
     "The message is the cluster's own: no connection, no rights, no such job, or an error in the "
     "job."},
    {"PL-E047", "the cluster has no resource ElasticJob", kExitUnreachable,
     "The operator is not installed there, or is of another release. docs/guides/kubernetes.md "
     "says how to install it: deploy/kubernetes/install.yaml needs the name of your image first."},
    {"PL-E048", "the job of the cluster has ended", kExitUnreachable,
     "No master answers for it any more, and what the command shows was not kept. Its pods and "
     "their logs stay until the job's ttl."},
    {"PL-E049", "the address belongs to another job now", kExitUsage,
     "The master of this host's job is gone, and a new job uses its address. This happens if "
     "the first host was started again without --resume. This host does not change jobs by "
     "itself. Start the same command again to join the new job; on a cluster the platform "
     "restarts the container."},
    {"PL-E050", "the job cannot go on in the background", kExitTrainingFailed,
     "`--detach` needs one more process and a few open files, and this user has no room for them. "
     "The job was not started."},

    {"PL-E060", "training failed", kExitTrainingFailed,
     "A rank failed and the recovery ladder has no rung left. The traceback of the rank that "
     "failed "
     "first is printed above; `paceline why` tells how the decision came about."},
    {"PL-E061", "the script fails at the same step again and again", kExitTrainingFailed,
     "The same error came several times in a row without a new highest step, so another restart "
     "would only repeat it. Progress between failures refills the budget; "
     "`budgets.no_progress_failures` changes the number."},
    {"PL-E062", "the restarts allowed by --max-restarts are used up", kExitTrainingFailed,
     "With --max-restarts the number is a hard cap, as torchrun's. Without it paceline counts "
     "only failures without progress."},
    {"PL-E063", "ranks did not start in time", kExitTrainingFailed,
     "Not all ranks reported that they run within `timers.start_timeout`. A slow disk or a long "
     "import needs a larger value."},
    {"PL-E064", "a rank was killed for using too much memory", kExitTrainingFailed,
     "The kernel's out-of-memory counter of the rank's control group went up. Exit status 137 "
     "alone is not reported as out of memory."},
    {"PL-E065", "a rank cannot be started", kExitTrainingFailed,
     "Creating the process failed: the program is missing or not executable, the working directory "
     "is gone, or a limit on processes or open files was reached."},
    {"PL-E066", "the last saved step is not in storage", kExitNotStored,
     "All ranks have finished, but for `timers.storage_wait` the storage refused to write the last "
     "saved step: its disk is full, or access is denied. The step stays in the memory of the "
     "hosts. Repair the storage; then `paceline run --resume --run-dir DIR` writes the step there. "
     "A job that ends with another exit code prints the same text as a warning."},
    {"PL-E067", "an argument of the Python package is not usable", kExitTrainingFailed,
     "A call of the Python package was given something of another type, out of range, NaN or "
     "empty. The error is an `ArgumentError`: a `PacelineError` in four parts, and also a "
     "`ValueError` and a `TypeError`. It is raised before anything is done, and "
     "docs/guides/checkpoints.md lists what each argument may be. If the script does not catch it, "
     "the rank fails as with any other exception."},
    {"PL-E070", "waiting took longer than allowed", kExitWaitTimedOut,
     "The time of `paceline wait --timeout` passed before the job reached the requested state. The "
     "job goes on."},
    {"PL-E071", "the job ended before it reached the requested state", kExitTrainingFailed,
     "`paceline wait` was told to wait for a state or a step that the job can no longer "
     "reach, because it has finished. `paceline why` says how it ended."},
    {"PL-E080", "there is no checkpoint", kExitUsage,
     "The directory has no folder with a complete MANIFEST.json: no checkpoint was committed yet, "
     "it is not the Checkpointer's directory, or the manifest is damaged."},
    {"PL-E081", "the storage of the checkpoints cannot be read", kExitUnreachable,
     "The file system or the object store does not answer, or refuses these credentials. The "
     "checkpoints themselves may be undamaged."},
    {"PL-E082", "the checkpoint cannot be exported", kExitUsage,
     "It is damaged, it has no entry of that name, or the target already exists. The "
     "checkpoint is unchanged."},
    {"PL-E083", "the file cannot be imported", kExitUsage,
     "Pickles are read only by torch's weights-only loader, because a pickle can run any "
     "code. If that loader refuses a file, save it again as tensors, numbers, text, lists and "
     "dicts."},
    {"PL-E084", "the checkpoint cannot be copied", kExitUsage,
     "Files that were copied stay, and the next try does not copy them again. Without a manifest "
     "they do not count as a checkpoint."},
    {"PL-E085", "the job leases no such data", kExitUsage,
     "`paceline data ls` shows data sets that workers lease from the master: those of "
     "paceline.data.shards and LeasedLoader. Each rank computes the data of an ElasticLoader, "
     "so nothing is leased. Its position is in the checkpoints: `paceline data trace SAMPLE "
     "--checkpoint DIR`."},
    {"PL-E086", "the leases of the job cannot be read", kExitUnreachable,
     "data.db of the run directory is there and cannot be read: it is damaged, held by another "
     "program, or the disk does not answer."},
    {"PL-E087", "the job has a master, so nothing is to be rescued", kExitUsage,
     "`paceline ckpt rescue` is for a job whose master's host is lost for good. While a master "
     "answers any host, or its journal is on this host, the master brings the newest step to "
     "storage by itself. Nothing was changed."},
    {"PL-E088", "the step in memory cannot be brought to storage", kExitUnreachable,
     "`paceline ckpt rescue` needs an image of each rank in the memory of the hosts that are left, "
     "a living agent on each of these hosts, and storage that takes the step. Only one such "
     "command of a job may run at a time. The error names the ranks without an image, the host of "
     "the other command, or what storage answered. Checkpoints that are in storage are "
     "unchanged."},
    {"PL-E089", "the checkpoint cannot be removed", kExitUsage,
     "A living job may be writing it, or this user may not change its directory."},
    {"PL-E099", "a bug of paceline", kExitTrainingFailed,
     "This should never happen. Please report it with the text shown."},

    {"PL-E101", "an open address without encryption is refused", kExitUsage,
     "Anybody who can read the network traffic can read the job's token. `--tls` makes a job "
     "authority and certificates by itself; `--insecure` says that the network is trusted."},
    {"PL-E102", "the token is missing or wrong", kExitNotAuthorised,
     "Every request carries the job's token, a file in the run directory that only its owner can "
     "read. Other hosts get it inside the join string."},
    {"PL-E103", "a secret file is readable by others", kExitNotAuthorised,
     "Token and key files must belong to you and have mode 0600."},
    {"PL-E104", "the join string is not usable", kExitUsage,
     "Copy the whole string that `paceline run --tls` printed on the first host. It is valid for "
     "one job only."},
    {"PL-E105", "the encrypted connection failed", kExitNotAuthorised,
     "The other side has a certificate of another job, none at all, or one that is not valid at "
     "this time; or one side uses TLS and the other does not. Compare the clocks; take the join "
     "string of this job, and start the first host with --tls."},
    {"PL-E106", "an agent may not register that node", kExitNotAuthorised,
     "Over TLS a host's certificate lists the nodes that its agents may register. A certificate "
     "that was copied from another host, or a run directory whose nodes were renamed, does not "
     "fit. Start the host again with the join string."},
    {"PL-E107", "another user holds the master's port", kExitNotAuthorised,
     "On loopback without TLS, the token is sent only to a process of the same user or of root. "
     "The master may have died, and another user's process listens on its port now; or the job is "
     "another user's. Start the job with --tls: then the master proves by its certificate who it "
     "is."},
    {"PL-E110", "the master did not request this node", kExitFenced,
     "On a platform, the master names the nodes. A lost node is replaced by its next "
     "incarnation. If the old one comes back, for example after a network cut, it is refused "
     "and the platform removes it. The job loses nothing."},
    {"PL-E111", "the job has a newer master", kExitUnreachable,
     "A platform gives each new master of a job a higher term. A master that was believed dead may "
     "come back without knowing of the newer one. It refuses nodes that have been connected to the "
     "newer master. These nodes connect again and find the newer one. The platform ends the old "
     "master."},
    {"PL-E112", "the node before this one has not left yet", kExitUnreachable,
     "A platform takes a node away and has started its replacement under the same name. The old "
     "node trains on until its absence costs no step, at the latest until its grace period is "
     "over. The replacement asks again and joins then."},

    {"PL-E115", "the job cannot have so many nodes", kExitUsage,
     "`paceline scale` changes the number of nodes within the limits of --nnodes, in multiples of "
     "its unit, to a size that holds the model. The limits of a job never change: for other ones, "
     "stop it and start a new run of its checkpoints."},
    {"PL-E120", "the request for a plan cannot be read", kExitUsage,
     "`paceline plan` needs a model (a script, a name or a config.json) and a cluster. "
     "docs/guides/planning.md shows each."},
    {"PL-E121", "the model of a script cannot be planned for", kExitUsage,
     "The script is run on the device `meta`, without data and other ranks, up to its call of "
     "paceline.parallel.parallelize. What it does before that line must work without real "
     "tensors."},
    {"PL-E122", "no parallel plan is possible", kExitFindings,
     "No plan in the searched space fits into the devices' memory, or the requested values "
     "exclude each other. The message names the smallest change that makes a plan possible."},
    {"PL-E123", "the job has no parallel plan", kExitFindings,
     "`paceline plan --show` prints the plan that a job's ranks carry out. A script has one from "
     "its call of paceline.parallel.parallelize on; a script that never calls it has none."},
    {"PL-E165", "there is no such kind of drill", kExitUsage,
     "`paceline drill` without arguments lists the kinds, with what each does and what must "
     "follow."},
    {"PL-E166", "this kind of drill needs its own job", kExitUsage,
     "Some faults are a part of the script: its loader, its collectives or its loss. They are "
     "rehearsed only in the drill's own small job, without a script of yours."},
    {"PL-E167", "no drill can be held on this host", kExitUsage,
     "The drills' job trains with torch over gloo, and needs a folder of its own in /tmp. The "
     "message says what is missing."},
    {"PL-E168", "this kind of drill cannot strike a job that runs", kExitUsage,
     "`paceline drill KIND --job ID` sends signals and does no more. Other kinds have own jobs."},
    {"PL-E169", "the job is not struck now", kExitUsage,
     "Ranks are struck with a fresh checkpoint only, a node with a spare only."},

    {"PL-E235", "a check cannot be started", kExitUsage,
     "`--check FILE` names an executable that each host must pass before it is seated. It has to "
     "be there on each host, at the same path, and to be executable; a name that ends in .py or "
     ".sh is enough, too. docs/guides/checks.md explains checks."},
    {"PL-E236", "two checks have the same name", kExitUsage,
     "The log of a check, its reason and its numbers are named after its file, without the "
     "folder."},
    {"PL-E239", "a file of rules for failures cannot be read", kExitUsage,
     "`[log] rules` names files with your own classes of failures. They have to be there on each "
     "host, at the same path. docs/guides/failure-classes.md has their form."},

    {"PL-E140", "the tasks of the job are not possible", kExitUsage,
     "`paceline run --tf --workers N --ps M` starts a TensorFlow job by TF_CONFIG, and `paceline "
     "run "
     "--workers N --ps M --tables DIR` a job with paceline's own table servers: tasks that "
     "restart alone, without a world. The number of nodes is fixed, each node has a slot for each "
     "of its tasks, and no platform (Kubernetes, Ray) starts such jobs yet."},
    {"PL-E141", "the job has no tasks", kExitFindings,
     "`paceline tasks` lists the tasks of a job that was started with --tf or --tables. A job with "
     "a world has "
     "ranks: `paceline status` lists its nodes."},
    {"PL-E251", "there are no versions to serve", kExitFindings,
     "`paceline serve` reads what `paceline.embedding.Publish` writes beside a training: a file "
     "CURRENT and folders of versions."},
    {"PL-E252", "the served version cannot be changed", kExitFindings,
     "`paceline serve rollback` lets readers go back to a version that is still there. The newest "
     "hundred to two hundred versions are kept."},
    {"PL-E315", "no policy of a pool has that name", kExitUsage,
     "`paceline pool simulate` compares policies by name, separated by commas. The message lists "
     "them."},
    {"PL-E316", "a trace of a pool cannot be used", kExitUsage,
     "The file is missing, empty, or not of the format paceline.pool_trace/1 "
     "(docs/formats/pool_trace.md). The message names the first value that is wrong. `paceline "
     "pool "
     "trace` prints a made trace to begin with."},
    {"PL-E250", "the history cannot be used", kExitFindings,
     "`paceline history` reads what masters measured of the sizes of their jobs, from the folder "
     "`[history] place`. A job runs without it."},
    {"PL-E142", "the time of a job of tasks is not measured", kExitFindings,
     "`paceline goodput` divides the time of ranks that work together in a world. Tasks work "
     "alone: "
     "`paceline tasks` says since when each runs, and how often it started."},

    {"PL-E195", "a step of tables without a batch of leased data", kExitTrainingFailed,
     "Tables apply each batch once. They know a batch by the ordinals that a LeasedLoader handed "
     "to "
     "the loop, so `paceline.embedding.Optimizer.step` works only inside such a loop."},
    {"PL-E196", "two steps for one batch", kExitTrainingFailed,
     "The second push of a batch would be skipped as a repetition, so it is refused. Sum the "
     "losses of a batch before `backward`, and call `step` once in each turn of the loop."},
    {"PL-E197", "a table is open in another form", kExitTrainingFailed,
     "All processes of a job open a table of one name with the same dim, optimizer, seed and "
     "scale. "
     "The rate and the budget may differ; the last process that opens it decides."},
    {"PL-E198", "a gradient that goes to a table is not finite", kExitTrainingFailed,
     "The message names the table and the key. Nothing of the batch was applied to any table. "
     "`zero_grad()` in the place of `step()` leaves the batch out."},
    {"PL-E199", "gradients of an earlier batch", kExitTrainingFailed,
     "The loop took the next batch, which acknowledged the earlier one, before its gradients were "
     "pushed. A step a batch is needed; gradients cannot be accumulated over several batches."},
    {"PL-E330", "Ray's head is away for good", kExitUnreachable,
     "Ray ends each raylet that has not reached its head for "
     "RAY_gcs_rpc_server_reconnect_timeout_s (60 s), and all that runs there. The job is stopped "
     "before that if the head has no Redis, so its newest state is in storage. Submit the job "
     "again. Ray's guide to GCS fault tolerance says how a head gets a Redis; docs/guides/ray.md "
     "says what happens then."},
    {"PL-E331", "a raylet cannot run paceline", kExitUnreachable,
     "Ray placed a part of the job on a raylet whose Python could not make it, most often because "
     "paceline is not installed there. The job uses other raylets meanwhile. If there is none, it "
     "waits, or `paceline submit` fails."},
    {"PL-W001", "open files are limited", kExitFindings,
     "Each rank needs some dozens of descriptors, and the master needs one per agent. Raise the "
     "limit: `ulimit -n 65536`."},
    {"PL-W002", "/dev/shm is small", kExitFindings,
     "DataLoader workers pass batches through it; a full /dev/shm kills ranks with SIGBUS."},
    {"PL-W003", "torch cannot be imported", kExitFindings,
     "The interpreter that ranks would use has no torch. Scripts without torch still run."},
    {"PL-W004", "the clock is not synchronised", kExitFindings,
     "Certificates and timelines over several hosts need clocks that agree."},
    {"PL-W005", "the current directory is not writable", kExitFindings,
     "Run directories then go to $XDG_STATE_HOME/paceline/runs."},
    {"PL-W006", "no port is free below the ephemeral range", kExitFindings,
     "The TCPStore of each world listens on a port below that range, so that the kernel cannot "
     "give the port to another program."},
    {"PL-W007", "processes are limited", kExitFindings,
     "`ulimit -u` is low for the number of cores; DataLoader workers and threads count too."},
    {"PL-W008", "an environment variable resembles a setting", kExitFindings,
     "A variable that starts with PACELINE_ has no effect but is spelt almost like one that has."},
    {"PL-W009", "the paceline package is missing in the interpreter", kExitFindings,
     "The starter and the rank bootstrap are Python modules of the package `paceline`. Install "
     "it into the interpreter that runs the script."},
    {"PL-W010",
     "the folder for checkpoints in memory belongs to another user, or others may enter it",
     kExitFindings,
     "A Checkpointer saves below /dev/shm/paceline-UID. If another user has made a folder of that "
     "name, or may enter it, a job uses a new folder paceline-UID-XXXXXX instead. The owner of the "
     "first folder, or root, can remove it."},
    {"PL-W011", "the host's own name leads to no address of this host", kExitFindings,
     "torch's gloo backend listens on the address of the host's name, and on 127.0.0.1 if there is "
     "none. Ranks of other hosts cannot connect to that. `paceline run` sets GLOO_SOCKET_IFNAME to "
     "the interface that reaches the master, unless it is set already."},
};

}  // namespace paceline::cli
