package decide

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"paceline.dev/operator/api/v1alpha1"
)

// Why all of a job is about to end, as its master records it.
const (
	NoticeDeleted   = "the job was deleted"
	noticeSuspended = "the job was suspended"
)

// decision is the work of one call of Decide.
type decision struct {
	Snapshot
	plan   Plan
	status v1alpha1.ElasticJobStatus // what the status will be
	seen   seen
	// Why the master is not heard: a condition's reason and message.
	masterReason  string
	masterMessage string
	isWaitShown   bool // status.Last is why the job waits, and no failure
}

// Decide returns what is to be done for the job of the snapshot.
func Decide(snapshot Snapshot) Plan {
	d := &decision{Snapshot: snapshot, status: *snapshot.Job.Status.DeepCopy()}
	if d.Job.Deleting { // the garbage collector deletes what the job owns
		if master := d.currentMaster(); master != nil && master.isLive() {
			d.dial(master)
			d.plan.Notice = NoticeDeleted
		}
		d.plan.EndKept = d.hasEndToAnswer()
		d.closeGroup()
		return d.plan
	}
	d.noteSeen()
	switch {
	case d.isFinished():
		d.finished()
	case d.isBehind():
		// The cache shows a master of a later term than the job: the job is an old copy.
		d.wakeAt(d.Now.Add(CacheLagMax))
		return d.plan
	case d.Job.Invalid != "":
		d.fail("InvalidSpec", d.Job.Invalid)
	case d.Job.Suspend:
		d.agree()
		d.suspending()
	default:
		d.agree()
		d.running()
	}
	// The plan is carried out in order: if the write of the status fails, nothing is answered.
	d.plan.EndKept = d.plan.EndKept || d.isFinished() && d.hasEndToAnswer() &&
		!d.isDue(d.endedAt().Add(EndGrace))
	d.writeStatus()
	return d.plan
}

// hasEndToAnswer says whether the current master waits until the end that it told is kept.
func (d *decision) hasEndToAnswer() bool {
	return d.isHeard() && d.Stream.Connected && d.Stream.Ended != nil
}

// wakeAt makes sure that the next look is not later than `at`.
func (d *decision) wakeAt(at time.Time) {
	if d.plan.Next.IsZero() || at.Before(d.plan.Next) {
		d.plan.Next = at
	}
}

// isDue says whether `at` has come, and arranges for a look at that time if not.
func (d *decision) isDue(at time.Time) bool {
	if !d.Now.Before(at) {
		return true
	}
	d.wakeAt(at)
	return false
}

func (d *decision) isTrue(condition string) bool {
	return meta.IsStatusConditionTrue(d.Job.Status.Conditions, condition)
}

func (d *decision) isFinished() bool {
	return d.isTrue(v1alpha1.ConditionComplete) || d.isTrue(v1alpha1.ConditionFailed)
}

func (d *decision) isBehind() bool {
	for _, master := range d.Masters {
		if master.Term > d.Job.Status.MasterTerm {
			return true
		}
	}
	return false
}

// noteSeen unites what the status says with the pods in the list.
func (d *decision) noteSeen() {
	d.seen = fromStatus(d.Job.Status.Seen)
	for _, node := range d.Nodes {
		d.seen.add(node.Index, node.Incarnation)
	}
}

func (d *decision) delete(pod Pod, why string) {
	if pod.Terminating {
		return
	}
	d.plan.Deletes = append(d.plan.Deletes, Delete{Name: pod.Name, UID: pod.UID, Why: why})
}

// finished ends what still runs, keeps ended pods for their logs, and deletes the job after its
// time to live. It makes nothing.
func (d *decision) finished() {
	d.closeGroup()
	end := d.endedAt()
	for _, pod := range d.allPods() {
		if !pod.isLive() || pod.Terminating {
			continue
		}
		if pod.Phase == Waiting || d.isDue(end.Add(EndGrace)) {
			d.delete(pod, "the job has ended")
		}
	}
	if d.Job.TTL != nil && d.isDue(end.Add(*d.Job.TTL)) {
		d.plan.DeleteJob = true
	}
}

// endedAt returns when the job ended; now, if its status does not say.
func (d *decision) endedAt() time.Time {
	if d.Job.Status.FinishedAt != nil {
		return d.Job.Status.FinishedAt.Time
	}
	return d.Now
}

func (d *decision) allPods() []Pod {
	pods := make([]Pod, 0, len(d.Masters)+len(d.Nodes))
	for _, master := range d.Masters {
		pods = append(pods, master.Pod)
	}
	for _, node := range d.Nodes {
		pods = append(pods, node.Pod)
	}
	return pods
}

// hasRunningNode says whether ranks may run.
func (d *decision) hasRunningNode() bool {
	return slices.ContainsFunc(d.Nodes, func(node NodePod) bool { return node.Phase == Running })
}

// suspending tells the master that the job is about to end, which lets the job save, and ends the
// nodes, each with its grace period. The master is deleted after them, because a save needs it.
func (d *decision) suspending() {
	if master := d.currentMaster(); master != nil && d.isHeard() && d.Stream.Ended != nil &&
		d.Stream.Ended.ExitCode == 0 {
		d.finish(*d.Stream.Ended)
		return
	}
	d.plan.EndKept = d.hasEndToAnswer() // the job goes on later, so its end is not stored
	d.closeGroup()                      // and in a group of its own
	hasLiveNode, hasLiveMaster := false, false
	for _, node := range d.Nodes {
		if node.isLive() {
			d.delete(node.Pod, "the job is suspended")
			hasLiveNode = hasLiveNode || !node.Overdue
		}
	}
	for _, master := range d.Masters {
		if !master.isLive() {
			continue
		}
		if !hasLiveNode {
			d.delete(master.Pod, "the job is suspended")
		}
		hasLiveMaster = hasLiveMaster || !master.Overdue
		if hasLiveNode && master.Term == d.Job.Status.MasterTerm {
			d.dial(&master)
			d.plan.Notice = noticeSuspended
		}
	}
	if !hasLiveNode && !hasLiveMaster {
		d.setCondition(v1alpha1.ConditionSuspended, true, "Suspended",
			"No pod of the job runs. spec.suspend=false starts it from its newest checkpoint.")
		d.setCondition(v1alpha1.ConditionMasterReady, false, reasonSuspended, "The job is suspended.")
		d.setCondition(v1alpha1.ConditionRunning, false, reasonSuspended, "The job is suspended.")
		d.showNoNodes(d.sizeOf(nil, nil), uint32(d.Job.Spares))
		d.status.State = "Suspended"
		return
	}
	d.setCondition(v1alpha1.ConditionSuspended, false, "Suspending",
		"Each node gets SIGTERM and its grace period to save. Then the master is deleted.")
	d.status.State = "Suspending"
	d.wakeAt(d.Now.Add(StreamSilentAfter))
}

// finish writes the job's end. The pods are looked after once the end stands in the status.
func (d *decision) finish(end End) {
	d.status.ExitCode = &end.ExitCode
	if told := d.Stream.Ended; len(end.History) == 0 && d.isHeard() && told != nil &&
		told.ExitCode == end.ExitCode {
		end.History = told.History
	}
	d.status.History = end.History
	d.showLast()
	d.plan.EndKept = d.hasEndToAnswer()
	if end.ExitCode != 0 {
		d.fail("ExitCode"+itoa(int64(end.ExitCode)), orElse(end.Reason, "The job failed."))
		return
	}
	d.setCondition(v1alpha1.ConditionComplete, true, "Done", orElse(end.Reason, "The job is done."))
	d.end("Complete")
}

func (d *decision) fail(reason, message string) {
	// The condition's event says it already. What nodes did while the job ended is not why it did.
	d.status.Last, d.isWaitShown = clipTo(message, waitMax), true
	d.setCondition(v1alpha1.ConditionFailed, true, reason, message)
	d.end("Failed")
}

func (d *decision) end(state string) {
	now := metaTime(d.Now)
	d.status.FinishedAt = &now
	d.status.State = state
	d.status.Replicas = 0
	d.status.Pending, d.status.PendingCount = nil, 0
	d.setCondition(v1alpha1.ConditionRunning, false, state, "The job has ended.")
	d.setCondition(v1alpha1.ConditionMasterReady, false, state, "The job has ended.")
	d.setCondition(v1alpha1.ConditionDegraded, false, state, "The job has ended.")
	d.plan.Dial = ""
}
