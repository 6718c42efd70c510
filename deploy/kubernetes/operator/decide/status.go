package decide

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"paceline.dev/operator/api/v1alpha1"
)

const (
	messageMax = 2000 // bytes of a condition's message
	waitMax    = 160  // bytes of a reason to wait in a column of kubectl get
	// stateLastKnown is the state while the numbers are those of the master before.
	stateLastKnown = "NewMaster"
)

// MemoMax is the most that a master may ask to keep, in bytes.
const MemoMax = 2048

func itoa(number int64) string { return strconv.FormatInt(number, 10) }

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

func trimDot(text string) string { return strings.TrimRight(text, ". ") }

func metaTime(at time.Time) metav1.Time { return metav1.NewTime(at.Truncate(time.Second)) }

func clip(text string) string { return clipTo(text, messageMax) }

func clipTo(text string, bytesMax int) string {
	if len(text) <= bytesMax {
		return text
	}
	return strings.ToValidUTF8(text[:bytesMax], "") + "…"
}

func (d *decision) event(isWarning bool, reason, text string) {
	d.plan.Events = append(d.plan.Events, Event{isWarning, reason, clip(text)})
}

func (d *decision) setCondition(kind string, isTrue bool, reason, message string) {
	status := metav1.ConditionFalse
	if isTrue {
		status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&d.status.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: clip(message),
		ObservedGeneration: d.Job.Generation, LastTransitionTime: metaTime(d.Now),
	})
}

// writeStatus completes the new status, and decides whether it is worth a write now.
func (d *decision) writeStatus() {
	isOver := d.isFinished() || d.status.FinishedAt != nil ||
		d.Job.Suspend && d.status.State == "Suspended"
	if !isOver {
		d.describe()
	}
	d.status.ObservedGeneration = d.Job.Generation
	d.status.Seen = d.seen.toStatus()
	old := &d.Job.Status
	d.eventsOfChange(old)
	switch {
	case reflect.DeepEqual(*old, d.status),
		d.Memory.Dropped != nil && reflect.DeepEqual(*d.Memory.Dropped, d.status):
		return
	case d.plan.Raised != 0 || d.status.FinishedAt != nil || hasTurned(old, &d.status):
	case onlyCounted(old, &d.status):
		if !d.isDue(d.Memory.StatusWritten.Add(StepInterval)) {
			return
		}
	case !d.isDue(d.Memory.StatusWritten.Add(StatusInterval)):
		return
	}
	status := d.status
	d.plan.Status = &status
}

// describe fills in what people and programs read of a job that has not ended.
func (d *decision) describe() {
	d.describeMaster()
	wish, summary := d.Stream.Wish, d.Stream.Summary
	if !d.isHeard() {
		wish, summary = nil, nil
	}
	if d.hasWish() || d.isStarting() {
		d.describePending()
	}
	d.status.Selector = d.Job.Selector
	size, spares := d.sizeOf(wish, summary), uint32(d.Job.Spares)
	if wish != nil {
		spares = wish.Spares
		d.status.ExcludedHosts = wish.Excluded
	}
	if summary == nil || d.isTakingOver(summary) {
		if d.status.Nodes == "" {
			d.showNoNodes(size, spares)
		}
		if d.isTrue(v1alpha1.ConditionRunning) && d.hasRunningNode() {
			d.showLastKnown()
		} else if d.isTrue(v1alpha1.ConditionRunning) {
			d.showNoNodes(size, spares)
			d.setCondition(v1alpha1.ConditionRunning, false, "Waiting", "No node of the job runs.")
			d.setCondition(v1alpha1.ConditionDegraded, false, "NotRunning", "The job does not run.")
			d.status.State = "Waiting"
		} else if d.status.State == "" {
			d.status.State = "Starting"
		}
		d.showWait()
		return
	}
	d.status.Nodes = fmt.Sprintf("%d/%d", summary.Nodes, size)
	d.status.Replicas = int32(summary.Nodes)
	d.status.Spares = fmt.Sprintf("%d/%d", summary.Spares, spares)
	d.showLast()
	if len(summary.Memo) <= MemoMax {
		d.status.Memo = summary.Memo
	}
	d.describeWorld(summary, size)
	if d.status.Last == "" && summary.Phase != "running" {
		d.showWait()
	}
}

func (d *decision) showNoNodes(size, spares uint32) {
	d.status.Nodes, d.status.Replicas = fmt.Sprintf("0/%d", size), 0
	d.status.Spares = fmt.Sprintf("0/%d", spares)
}

// isTakingOver says whether a later master has not heard the nodes of a job that ran before. Until
// then its summary has no node, although the ranks train.
func (d *decision) isTakingOver(summary *Summary) bool {
	return d.Job.Status.MasterTerm > 1 && d.isTrue(v1alpha1.ConditionRunning) &&
		summary.Phase == "waiting" && summary.Nodes == 0 &&
		!d.isDue(d.Memory.Since.Add(TakeOverMax))
}

// showLastKnown keeps the numbers of the master before, and marks them by the state.
func (d *decision) showLastKnown() {
	if d.Stream.Connected && d.isHeard() && d.Stream.Summary == nil &&
		d.status.State != stateLastKnown {
		return // the first summary of a stream follows its first message
	}
	d.setCondition(v1alpha1.ConditionRunning, true, stateLastKnown, fmt.Sprintf("Master %d takes "+
		"over. Until it has heard the nodes, their numbers are the last known ones.",
		d.status.MasterTerm))
	d.status.State = stateLastKnown
}

// showWait says in the column of the last failure why a job that does not run has no master or no
// nodes, if the API server, the scheduler or the kubelet said so.
func (d *decision) showWait() {
	text := ""
	master := d.currentMaster()
	switch {
	case isRefusal(d.masterReason) && d.masterReason != "MasterLost", d.masterReason == "MasterEnded":
		text = d.masterMessage
	case master != nil && master.Phase == Waiting:
		text = master.Reason
	case len(d.status.Pending) > 0:
		text = d.status.Pending[0].Node + ": " + d.status.Pending[0].Reason
	}
	if text == "" {
		return
	}
	d.status.Last, d.isWaitShown = clipTo(text, waitMax), true
}

// showLast takes over what holds of a job after its end, too: its step, goodput and last failure.
func (d *decision) showLast() {
	summary := d.Stream.Summary
	if !d.isHeard() || summary == nil {
		return
	}
	if summary.Step >= 0 {
		d.status.Step = itoa(summary.Step)
	}
	if summary.Goodput > 0 && !math.IsInf(summary.Goodput, 0) {
		d.status.Goodput = fmt.Sprintf("%.1f%%", 100*summary.Goodput)
	}
	d.status.Last = clip(summary.Last)
}

// describeWorld turns the master's phase into conditions and a word.
func (d *decision) describeWorld(summary *Summary, size uint32) {
	isRunning := summary.Phase == "running"
	message := orElse(summary.Pending, "The master says: "+orElse(summary.Phase, "starting")+".")
	d.setCondition(v1alpha1.ConditionRunning, isRunning, camel(orElse(summary.Phase, "starting")),
		message)
	isDegraded := isRunning && summary.Nodes < size
	sentence := "The job has all nodes that it requests."
	switch {
	case isDegraded:
		sentence = fmt.Sprintf("The job runs on %d of %d nodes.", summary.Nodes, size)
		if len(d.status.Pending) > 0 {
			first := d.status.Pending[0]
			sentence += fmt.Sprintf(" %s: %s", first.Node, first.Reason)
		}
	case !isRunning:
		sentence = "The job does not run."
	}
	reason := "AllNodes"
	if isDegraded {
		reason = "NodesMissing"
	} else if !isRunning {
		reason = "NotRunning"
	}
	d.setCondition(v1alpha1.ConditionDegraded, isDegraded, reason, sentence)
	if d.Job.Suspend {
		return
	}
	d.status.State = camel(orElse(summary.Phase, "starting"))
	if isDegraded {
		d.status.State = "Degraded"
	}
	if d.masterReason == "MasterLost" || d.masterReason == "MasterEnded" {
		d.status.State = "Recovering"
	}
}

func (d *decision) describeMaster() {
	if d.isHeard() && d.Stream.Connected && d.masterReason != "MasterLost" {
		d.setCondition(v1alpha1.ConditionMasterReady, true, "Heard",
			fmt.Sprintf("The operator is connected to master %d.", d.Stream.Term))
		return
	}
	if d.plan.Raised != 0 {
		d.masterReason = "MasterStarting"
		d.masterMessage = fmt.Sprintf("Master %d is started.", d.plan.Raised)
	}
	if d.masterReason != "" {
		d.setCondition(v1alpha1.ConditionMasterReady, false, d.masterReason, d.masterMessage)
	}
}

func (d *decision) describePending() {
	d.status.Pending, d.status.PendingCount = nil, 0
	for _, fact := range d.plan.Facts {
		if fact.Gone || fact.Text == "" {
			continue
		}
		d.status.PendingCount++
		if len(d.status.Pending) < PendingMax {
			d.status.Pending = append(d.status.Pending,
				v1alpha1.PendingNode{Node: NodeName(fact.Index), Reason: clip(fact.Text)})
		}
	}
}

// eventsOfChange says what changed, once: the events go out with the status that has the change.
func (d *decision) eventsOfChange(old *v1alpha1.ElasticJobStatus) {
	for _, condition := range d.status.Conditions {
		before := meta.FindStatusCondition(old.Conditions, condition.Type)
		isNew := before == nil && condition.Status == metav1.ConditionTrue
		if !isNew && (before == nil || before.Status == condition.Status) {
			if before == nil || condition.Type != v1alpha1.ConditionMasterReady ||
				before.Reason == condition.Reason || !isRefusal(condition.Reason) {
				continue
			}
		}
		isTrue := condition.Status == metav1.ConditionTrue
		isWarning := condition.Type == v1alpha1.ConditionFailed ||
			condition.Type == v1alpha1.ConditionDegraded && isTrue || isRefusal(condition.Reason)
		d.event(isWarning, condition.Reason, condition.Message)
	}
	if d.status.Last != "" && d.status.Last != old.Last && !d.isWaitShown {
		d.event(true, "Failure", d.status.Last)
	}
	if len(d.status.Pending) > 0 && (len(old.Pending) == 0 ||
		old.Pending[0].Reason != d.status.Pending[0].Reason) {
		first := d.status.Pending[0]
		text := first.Node + " does not run: " + first.Reason
		if d.status.PendingCount > 1 {
			text = fmt.Sprintf("%s and %d more do not run: %s", first.Node, d.status.PendingCount-1,
				first.Reason)
		}
		d.event(false, "NodesPending", text)
	}
}

func isRefusal(reason string) bool {
	return reason == "MasterRefused" || reason == "SecretsRefused" || reason == "MasterLost"
}

// hasTurned says whether a program may be waiting for the change.
func hasTurned(old, now *v1alpha1.ElasticJobStatus) bool {
	for _, condition := range now.Conditions {
		before := meta.FindStatusCondition(old.Conditions, condition.Type)
		if before == nil || before.Status != condition.Status || before.Reason != condition.Reason {
			return true
		}
	}
	return false
}

// onlyCounted says whether nothing but the step and the goodput differ.
func onlyCounted(old, now *v1alpha1.ElasticJobStatus) bool {
	same := *now
	same.Step, same.Goodput = old.Step, old.Goodput
	return reflect.DeepEqual(*old, same)
}

// camel makes a condition's reason of a phase.
func camel(word string) string {
	if word == "" {
		return word
	}
	return strings.ToUpper(word[:1]) + word[1:]
}
