package decide

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"paceline.dev/operator/api/v1alpha1"
)

// reasonSuspended is the reason of the conditions that are false because no pod of the job runs.
const reasonSuspended = "Suspended"

// begin raises the first term of a job, or the first after it was suspended.
func (d *decision) begin() {
	d.raise(0)
	d.status.StartTerm = d.plan.Raised
}

// isStarting says whether no master has been heard since the job began or was suspended.
func (d *decision) isStarting() bool {
	return !HasBegun(d.Job.Status.Conditions) && !(d.isHeard() && d.Stream.Wish != nil)
}

// HasBegun says whether a master was heard, by a job's conditions, since the job began or was
// suspended.
func HasBegun(conditions []metav1.Condition) bool {
	told := meta.FindStatusCondition(conditions, v1alpha1.ConditionRunning)
	return told != nil && told.Reason != reasonSuspended
}

// mayMakeFirst says whether nodes may be made without a wish.
func (d *decision) mayMakeFirst() bool { return d.isStarting() || d.isEvicted() }

// makeFirstNodes makes the smallest world's pods together with the master's. A scheduler of groups
// admits all pods of a group or none, so it would never admit a master whose nodes are made later.
func (d *decision) makeFirstNodes() {
	pods := d.podsByIndex()
	for index := range uint32(d.Job.NodesMin) {
		id := NodeID{index, d.seen[index]}
		if d.isOfBefore(id, pods[index]) {
			id.Incarnation++
		}
		d.lookAfterNode(id, pods[index])
	}
}

// isOfBefore says whether the pod is gone for certain, or ended before this start. A pod that ended
// since then is left to the master, which does not repeat a node that fails at once.
func (d *decision) isOfBefore(id NodeID, pods []NodePod) bool {
	for _, pod := range pods {
		if pod.Incarnation == id.Incarnation {
			master := d.currentMaster()
			return pod.Phase == Ended && master != nil && pod.Created.Before(master.Created)
		}
	}
	_, isGone := d.Memory.Gone[NodePodName(d.Job.Name, id)]
	return isGone
}
