// Package decide says what the operator does for one job. It is a pure function: no client, no
// clock, no goroutine. The reconciler gathers a Snapshot, calls Decide, and carries out the Plan.
//
// The rules that Decide keeps:
//
//   - Only the wish of the current term's master makes and deletes pods of nodes. Without a wish
//     nothing changes. The exceptions are the user's: a job that begins or goes on after it was
//     suspended, a suspended job, and a job that has ended; and the queue's: a job whose room was
//     taken.
//   - A pod of one node and incarnation is made once. If that pod is gone, Decide tells the master,
//     and the master wishes for a higher incarnation.
//   - A pod that is missing from a list is not gone. It is gone when the API server told of its
//     deletion, or answered a direct question about that pod.
//   - A master is replaced when two witnesses agree: its stream is silent, and its pod is gone.
//   - A term is raised in the status before its master's pod is made, and only the operator that
//     raised a term makes its pod. So no term has two masters.
package decide

import (
	"time"

	"paceline.dev/operator/api/v1alpha1"
)

// Bounds of waiting.
const (
	// Time without a message after which a stream counts as silent.
	StreamSilentAfter = 5 * time.Second
	// Longest time for which the cache may lack a pod that was just made, or an end that was heard.
	CacheLagMax = 2 * time.Second
	// A master that ends by itself within this time counts as one that cannot start.
	ShortMasterLife = time.Minute
	// Time between two looks at the node of a master's pod that is Terminating.
	TerminatingInterval = 2 * time.Second
	// Longest pause before the next master. The pause doubles with each short-lived master.
	MasterPauseMax = time.Minute
	// Number of short-lived masters in a row after which the job fails.
	ShortMastersMax = 6
	// Time in which the running pods of an ended job may end by themselves. Then they are deleted.
	EndGrace = 30 * time.Second
	// Longest time for which a later master that has not heard its nodes is thought to take over.
	TakeOverMax = 30 * time.Second
	// Least time between two writes of the status if only the step or the goodput changed.
	StepInterval = 5 * time.Second
	// Least time between two writes if other fields changed that only people read. A change that a
	// program waits for is written at once.
	StatusInterval = time.Second
	// Number of ended pods of one node that are kept for their logs.
	EndedPodsMax = 10
	// Number of nodes that the status lists as not running.
	PendingMax = 50
)

// Phase of a pod.
type Phase int

const (
	// Waiting: no container runs yet.
	Waiting Phase = iota
	// Running: the container train runs, or may run.
	Running
	// Ended: all containers ended; the pod stays for its logs.
	Ended
)

// Pod is what Decide needs to know of a pod.
type Pod struct {
	Name  string
	UID   string
	Phase Phase
	// Terminating: somebody deleted the pod, and its kubelet has not confirmed that it ended.
	Terminating bool
	// Overdue: the pod is Terminating, and its grace period is over since 30 s.
	Overdue bool
	// Why the pod waits; or how what runs in it ended, to be said after its name: "ended with …".
	Reason string
	// Disrupted: the pod was ended from outside, by an eviction or a preemption.
	Disrupted bool
	Created   time.Time
	EndedAt   time.Time
	// Group: a queue admitted the pod with others, or will, and counts the group's room until it is
	// told that the group gets no further pod.
	Group bool
	// Leaving is why the pod's Kubernetes node will be taken away; "" if nobody announced that.
	Leaving string
}

func (p Pod) isLive() bool { return p.Phase != Ended }

// MasterPod is the pod of one term's master.
type MasterPod struct {
	Pod
	Term int64
	// Address is "" until the pod has one.
	Address string
	// HostLost: the pod's node is NotReady or deleted.
	HostLost bool
	// ExitCode of the container, if it ended.
	ExitCode *int32
	// Final is the master's last word, which it left in its termination message.
	Final *End
}

// NodePod is the pod of one node's incarnation.
type NodePod struct {
	Pod
	Index       uint32
	Incarnation uint32
}

// Wish is all that the master wants of the platform.
type Wish struct {
	Seq          uint64
	Drain        bool
	Size         uint32
	Spares       uint32
	Incarnations map[uint32]uint32
	Absent       map[uint32]bool
	// Kubernetes nodes on which no further pod of a node is to be placed.
	Excluded []string
}

// Wants says whether the wish has the index, and with which incarnation.
func (w *Wish) Wants(index uint32) (uint32, bool) {
	if index >= w.Size+w.Spares || w.Absent[index] {
		return 0, false
	}
	return w.Incarnations[index], true
}

// Summary is what the master tells for people.
type Summary struct {
	Phase   string
	Pending string
	Nodes   uint32
	Spares  uint32
	Step    int64 // -1: none is known
	Goodput float64
	Last    string
	// Memo is to be kept for the next master.
	Memo string
	// TakesSize: the master takes a number of nodes, and tells Size. One of an older release does not,
	// and neither does one that still waits for the job's history.
	TakesSize bool
	// Size is the number of nodes that was chosen while the job trains; 0: none was.
	Size           uint32
	SizeIsMeasured bool // by the master itself; false: by a user
	// SizeRefused is the newest number that the master refused, and Refusal says why; 0: none.
	SizeRefused uint32
	Refusal     string
	Measures    []Measure
}

// Measure is one series of the job's metrics, as its master names it (docs/metrics.md).
type Measure struct {
	Name  string // without paceline_ and the _total of a counter
	Of    string // the value of its label; "": it has none
	Value float64
}

// End is the job's exit code, with a sentence.
type End struct {
	ExitCode int32
	Reason   string
	// History is what is kept of the job for the commands that read it after its end. nil: nothing.
	History []byte
}

// Stream is the state of the stream to one term's master, and its last messages.
type Stream struct {
	Term      int64
	Connected bool
	// Heard is the time of the newest message, or of the start of listening.
	Heard   time.Time
	Problem string // why the stream does not stand; "" if it does
	Wish    *Wish
	Summary *Summary
	Ended   *End
}

// Refusal is an answer of the API server that may change with time.
type Refusal struct {
	Words    string
	Failures int
	Next     time.Time // the earliest time of the next attempt
}

// NodeID names one pod of a node.
type NodeID struct {
	Index       uint32
	Incarnation uint32
}

// Memory is what this operator process knows beyond the API server's lists. It is lost with the
// process, and Decide is right without it.
type Memory struct {
	// Since when this process looks after the job in its current term.
	Since time.Time
	// The term that this process raised, and whose master's pod it may therefore make.
	TermRaised int64
	// Pods that this process made, or saw in a list, with the time. One that is missing from the
	// list is not shown yet, or not any more: it is never made a second time.
	Made map[string]time.Time
	// Pods that are gone for certain, with the evidence, to be said after a name: "lost its pod …".
	Gone map[string]string
	// The job's Secrets exist.
	HasSecrets bool
	// The term that the Service selects; 0: unknown.
	ServiceTerm int64
	// The API server refuses what is to be made.
	Refused *Refusal
	// The API server refuses this one pod.
	PodRefused map[string]Refusal
	// When the status was written last.
	StatusWritten time.Time
	// Dropped is the status of that write, if the API server did not keep all of it: it has a
	// definition of ElasticJob that is older than this operator. nil: it kept all.
	Dropped *v1alpha1.ElasticJobStatus
}

// Job is the part of an ElasticJob that Decide reads.
type Job struct {
	Name       string
	Generation int64
	Deleting   bool
	Suspend    bool
	// Invalid says what is wrong with the spec; "" if nothing is.
	Invalid string
	// Queued: a queue admits the master and the first NodesMin nodes as one group of pods.
	Queued   bool
	NodesMin int32
	NodesMax int32
	// Target is the number of nodes that the user wants; 0: not set yet.
	Target int32
	Spares int32
	// Selector of the pods of nodes and spares, for autoscalers.
	Selector string
	TTL      *time.Duration
	Status   v1alpha1.ElasticJobStatus
}

// Snapshot is all that a decision depends on.
type Snapshot struct {
	Now     time.Time
	Job     Job
	Masters []MasterPod
	Nodes   []NodePod
	Stream  Stream
	Memory  Memory
}

// Delete names a pod to delete. The UID makes sure that it is that very pod.
type Delete struct {
	Name string
	UID  string
	Why  string
}

// Fact is what the operator reports of a node to the master. Facts may be repeated.
type Fact struct {
	Index       uint32
	Incarnation uint32
	Gone        bool
	// Evidence of a node that is gone; else why the node does not run, "" once it runs.
	Text string
}

// NodeNotice tells the master that a node will be taken away. It may be repeated.
type NodeNotice struct {
	NodeID
	Why string
}

// Event is a sentence for kubectl describe.
type Event struct {
	Warning bool
	Reason  string
	Text    string
}

// Plan is what is to be done now. The reconciler carries it out in the order of the fields.
type Plan struct {
	// Status is to be written if it is not nil. Nothing else of the plan is done if that fails.
	Status *v1alpha1.ElasticJobStatus
	Events []Event
	// Raised is the term that Status raises; 0: none.
	Raised        int64
	EnsureSecrets bool
	EnsureService bool
	CreateMaster  bool // of the term in the status
	// Survivors are the nodes that run when that master is made. It waits for them: they may have
	// copies of the journal of the master before it.
	Survivors int
	// Pods that the API server is to be asked for directly.
	Confirm []string
	Deletes []Delete
	Creates []NodeID
	// Alone are those nodes, and the master of CreateMaster, whose place in the queue's group is
	// taken by a pod that does not end. They are admitted by themselves.
	Alone       []NodeID
	MasterAlone bool
	// The Kubernetes nodes that those pods avoid.
	Excluded []string
	Dial     string // the address of the current term's master; "": hang up
	// EndKept tells the master that its job's end is stored, or that nothing of it is needed. The
	// stream stays until the master closes it.
	EndKept bool
	// Notice tells the master that all of the job is about to end, and why; "": it is not.
	Notice  string
	Facts   []Fact
	Notices []NodeNotice
	// Size is the number of nodes that the master is to be told; 0: nothing.
	Size uint32
	// SetTarget is the spec.nodes.target to write; 0: it stays.
	SetTarget int32
	// Pods of a queue's group that gets no further pod.
	Closes    []string
	DeleteJob bool
	// Next is the time of the next look if nothing happens before; zero: none.
	Next time.Time
}
