// Package v1alpha1 holds the resource ElasticJob: what a user writes (Spec) and what the operator
// answers (Status).
//
// Every number in the status is computed anew from lists of pods and from the master's summary.
// Nothing is counted by events, so a missed event cannot make a number wrong for good.
//
// +kubebuilder:object:generate=true
// +groupName=paceline.dev
package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TrainContainer is the container of the pod template that runs the script.
const TrainContainer = "train"

// Condition types. Complete and Failed are final, and exclude each other.
const (
	// MasterReady: the operator hears the master of the current term.
	ConditionMasterReady = "MasterReady"
	// Running: the ranks of the current world run.
	ConditionRunning = "Running"
	// Degraded: the job runs with fewer nodes than it wishes for.
	ConditionDegraded = "Degraded"
	// Suspended: spec.suspend is set, and no pod of the job runs any more.
	ConditionSuspended = "Suspended"
	// Complete: the job ended with exit code 0.
	ConditionComplete = "Complete"
	// Failed: the job ended with another exit code, or cannot be started.
	ConditionFailed = "Failed"
	// TargetTaken: the master has taken spec.nodes.target. It is there only after one was refused.
	ConditionTargetTaken = "TargetTaken"
)

// NodeRange says how many nodes train.
//
// +kubebuilder:validation:XValidation:rule="self.min <= self.max",message="nodes.min must not be greater than nodes.max"
// +kubebuilder:validation:XValidation:rule="self.min % self.unit == 0 && self.max % self.unit == 0",message="nodes.min and nodes.max must be multiples of nodes.unit"
// +kubebuilder:validation:XValidation:rule="!has(self.target) || self.target >= self.min && self.target <= self.max",message="nodes.target must be between nodes.min and nodes.max"
// +kubebuilder:validation:XValidation:rule="!has(self.target) || self.target % self.unit == 0",message="nodes.target must be a multiple of nodes.unit"
type NodeRange struct {
	// The job waits while it has fewer nodes.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	Min int32 `json:"min"`
	// The job grows up to this number.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	Max int32 `json:"max"`
	// The number of nodes that train is a multiple of it.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:default=1
	// +optional
	Unit int32 `json:"unit,omitempty"`
	// The number of nodes that the job is to have now. kubectl scale and autoscalers change it. Unset:
	// the operator sets it to max, or to the size that paceline scale chose.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	// +optional
	Target int32 `json:"target,omitempty"`
}

// Script is what each rank runs, as torchrun would run it.
//
// +kubebuilder:validation:XValidation:rule="has(self.file) != has(self.module)",message="script needs one of file and module"
type Script struct {
	// Path of a Python file in the container.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('-')",message="script.file must not begin with -; use script.module for python -m"
	// +optional
	File string `json:"file,omitempty"`
	// Name of a Python module.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('-')",message="script.module must not begin with -"
	// +optional
	Module string `json:"module,omitempty"`
	// +kubebuilder:validation:MaxItems=1000
	// +listType=atomic
	// +optional
	Args []string `json:"args,omitempty"`
}

// MasterSpec says where the master runs and with what. It has no GPU.
type MasterSpec struct {
	// Unset: 500m CPU and 512Mi memory are requested.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
	// Unset: those of the template.
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// Unset: the template's node affinity. Its pod affinities hold for nodes only.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`
	// Unset: those of the template.
	// +listType=atomic
	// +optional
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// Unset: that of the template.
	// +optional
	PriorityClassName string `json:"priorityClassName,omitempty"`
}

// ElasticJobSpec is what the user writes. The range of sizes, the script and, unless the job is
// suspended, the template are immutable: a change would hold for some pods of the job only.
//
// +kubebuilder:validation:XValidation:rule="self.nodes.min == oldSelf.nodes.min && self.nodes.max == oldSelf.nodes.max && self.nodes.unit == oldSelf.nodes.unit",message="of nodes only target may change; make a new job"
// +kubebuilder:validation:XValidation:rule="self.script == oldSelf.script",message="script is immutable; make a new job"
// +kubebuilder:validation:XValidation:rule="has(self.spares) == has(oldSelf.spares) && (!has(self.spares) || self.spares == oldSelf.spares)",message="spares is immutable; make a new job"
// +kubebuilder:validation:XValidation:rule="has(self.nprocPerNode) == has(oldSelf.nprocPerNode) && (!has(self.nprocPerNode) || self.nprocPerNode == oldSelf.nprocPerNode)",message="nprocPerNode is immutable; make a new job"
// +kubebuilder:validation:XValidation:rule="self.template == oldSelf.template || self.suspend",message="template may change only while the job is suspended"
type ElasticJobSpec struct {
	Nodes NodeRange `json:"nodes"`
	// Nodes that wait, joined and warm, to replace a lost one.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +optional
	Spares int32 `json:"spares,omitempty"`
	// Ranks a node. Unset: the GPUs of the container train, or 1 without GPUs.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1024
	// +optional
	NprocPerNode *int32 `json:"nprocPerNode,omitempty"`
	Script       Script `json:"script"`
	// More flags of paceline run, such as ["--ckpt-every", "30s"], without those that the operator
	// sets.
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MaxLength=4096
	// +kubebuilder:validation:XValidation:rule="self.all(f, !f.matches('^--(credentials|rdzv[-_]endpoint|local[-_]nodes|nnodes|spares|name|nproc[-_]per[-_]node|run[-_]dir|node[-_]name|incarnation|module|join|token[-_]file|tls)(=.*)?$|^-m'))",message="the operator sets --credentials, --rdzv-endpoint, --local-nodes, --nnodes, --spares, --name, --nproc-per-node, --run-dir, --node-name, --incarnation and --module, and its credentials stand for --join, --token-file and --tls; use spec.nodes, spec.spares, spec.nprocPerNode and spec.script"
	// +listType=atomic
	// +optional
	Flags []string `json:"flags,omitempty"`
	// Pod template of the nodes. Its container train gets the operator's command; the master's pod
	// has the same image, environment and volumes. The API server checks types when the job is
	// written, and the rest when a pod is made.
	Template corev1.PodTemplateSpec `json:"template"`
	// +optional
	Master MasterSpec `json:"master,omitempty"`
	// The pods of a suspended job are ended, with their grace period. The job stays, and false
	// starts it again from its newest checkpoint.
	// +kubebuilder:default=false
	// +optional
	Suspend bool `json:"suspend"`
	// The job and its pods, with their logs, are deleted that long after its end. Unset: never.
	// +kubebuilder:validation:Minimum=0
	// +optional
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
}

// NodesSeen says for which nodes a pod has existed. Such a pod is never made a second time: if it
// is gone, the master is told, and wishes for a higher incarnation.
type NodesSeen struct {
	// Each index below it was seen, with incarnation 0 if incarnations does not name it.
	// +optional
	Below int32 `json:"below,omitempty"`
	// The highest incarnation seen, by index.
	// +optional
	Incarnations map[string]int32 `json:"incarnations,omitempty"`
}

// PendingNode is a node that is wished for and does not run.
type PendingNode struct {
	Node string `json:"node"`
	// The API server's, the scheduler's or the kubelet's words.
	Reason string `json:"reason"`
}

// ElasticJobStatus is written by the operator alone.
type ElasticJobStatus struct {
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// The current master's number. It is raised before that master's pod is made.
	// +optional
	MasterTerm int64 `json:"masterTerm,omitempty"`
	// The term with which the job began, or went on after it was suspended. A queue admits the pods
	// of that start as one group.
	// +optional
	StartTerm int64 `json:"startTerm,omitempty"`
	// Masters in a row that ended by themselves within a minute. The next one waits the longer.
	// +optional
	ShortMasters int32 `json:"shortMasters,omitempty"`
	// +optional
	Seen NodesSeen `json:"seen,omitempty"`
	// One word for people, mostly what the master does. Programs read the conditions.
	// +optional
	State string `json:"state,omitempty"`
	// Nodes in the world, of those wished for: "7/8".
	// +optional
	Nodes string `json:"nodes,omitempty"`
	// The same number of nodes in the world, for the subresource scale.
	// +optional
	Replicas int32 `json:"replicas,omitempty"`
	// Selects the pods of nodes and spares, for the subresource scale.
	// +optional
	Selector string `json:"selector,omitempty"`
	// The newest spec.nodes.target on which the operator and the master agreed. If the two differ later,
	// it shows which of them has changed.
	// +optional
	Target int32 `json:"target,omitempty"`
	// +optional
	Spares string `json:"spares,omitempty"`
	// +optional
	Step string `json:"step,omitempty"`
	// +optional
	Goodput string `json:"goodput,omitempty"`
	// The newest sentence about a failure.
	// +optional
	Last string `json:"last,omitempty"`
	// What the masters have asked to keep: budgets and the end. The next one gets it, in case that no
	// node has a copy of the journal.
	// +kubebuilder:validation:MaxLength=2048
	// +optional
	Memo string `json:"memo,omitempty"`
	// Kubernetes nodes that get no further pod of a node of this job, as the master wishes.
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +optional
	ExcludedHosts []string `json:"excludedHosts,omitempty"`
	// +optional
	ExitCode *int32 `json:"exitCode,omitempty"`
	// What the last master told of the job when it ended: its status and its newest events. Commands
	// such as `paceline why --on` read it. It is binary, and at most 16 KiB as base64.
	// +kubebuilder:validation:MaxLength=16384
	// +optional
	History []byte `json:"history,omitempty"`
	// +optional
	FinishedAt *metav1.Time `json:"finishedAt,omitempty"`
	// The first 50 nodes that do not run yet.
	// +kubebuilder:validation:MaxItems=50
	// +listType=atomic
	// +optional
	Pending []PendingNode `json:"pending,omitempty"`
	// How many nodes do not run yet.
	// +optional
	PendingCount int32 `json:"pendingCount,omitempty"`
}

// ElasticJob is a training job that goes on when it loses nodes, and grows when it gets some.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.nodes.target,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:shortName=ej,singular=elasticjob
// +kubebuilder:printcolumn:name="NODES",type=string,JSONPath=`.status.nodes`
// +kubebuilder:printcolumn:name="SPARES",type=string,JSONPath=`.status.spares`
// +kubebuilder:printcolumn:name="STEP",type=string,JSONPath=`.status.step`
// +kubebuilder:printcolumn:name="GOODPUT",type=string,JSONPath=`.status.goodput`
// +kubebuilder:printcolumn:name="LAST",type=string,JSONPath=`.status.last`
// +kubebuilder:printcolumn:name="STATE",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 40",message="the job's name has at most 40 characters, because pod names begin with it"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="the job's name begins with a letter and has letters, digits and - only, because a Service has its name"
type ElasticJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ElasticJobSpec `json:"spec"`
	// +optional
	Status ElasticJobStatus `json:"status,omitempty"`

	// Unreadable names the field of the wrong type, with which the spec and the status were left
	// empty; "": the job was read.
	Unreadable string `json:"-"`
}

// +kubebuilder:object:root=true
type ElasticJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ElasticJob `json:"items"`
}
