package decide

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"

	"paceline.dev/operator/api/v1alpha1"
)

// agree brings spec.nodes.target and the number of nodes that a user chose by `paceline scale` to
// the same value. status.target is the value on which both agreed last, so the one that differs from
// it is the newer change, and holds. If both differ from it, spec.nodes.target holds.
//
// A job that nobody scaled has nodes.max as its target and no chosen number. The master is not told
// that target, because a number that a user chose ends the choice by measurement.
func (d *decision) agree() {
	summary := d.sizeSummary()
	target, agreed, chosen := uint32(d.Job.Target), uint32(d.Job.Status.Target), uint32(0)
	if summary != nil && !summary.SizeIsMeasured {
		chosen = summary.Size
	}
	switch {
	case target == 0:
		d.plan.SetTarget = d.firstTarget(chosen)
	case d.Job.Suspend:
	case summary == nil:
		d.showOlderRelease()
	case chosen == target, chosen == 0 && d.Job.Target == d.Job.NodesMax:
		d.agreeOn(d.Job.Target)
	case chosen != 0 && chosen != agreed && (target == agreed || target == summary.SizeRefused):
		d.plan.SetTarget = int32(chosen)
	case target == summary.SizeRefused:
		d.targetNotTaken("Refused", fmt.Sprintf("The job cannot have %d nodes: %s.", target,
			trimDot(summary.Refusal)))
	default:
		d.plan.Size = target
	}
}

// sizeSummary returns the summary of the current master, or nil if that master has not said that it
// takes a size.
func (d *decision) sizeSummary() *Summary {
	if summary := d.Stream.Summary; d.isHeard() && summary != nil && summary.TakesSize {
		return summary
	}
	return nil
}

// firstTarget is what an unset target becomes.
func (d *decision) firstTarget(chosen uint32) int32 {
	switch {
	case chosen != 0:
		return int32(chosen)
	case d.Job.Status.Target != 0: // somebody removed the field
		return d.Job.Status.Target
	}
	return d.Job.NodesMax
}

func (d *decision) agreeOn(target int32) {
	if meta.FindStatusCondition(d.status.Conditions, v1alpha1.ConditionTargetTaken) != nil {
		d.setCondition(v1alpha1.ConditionTargetTaken, true, "Taken", fmt.Sprintf(
			"The job goes for %d nodes.", target))
	}
	before := d.Job.Status.Target
	d.status.Target = target
	if before != 0 && before != target {
		d.event(false, "Scaled", fmt.Sprintf("The job goes from %d to %d nodes.", before, target))
	}
}

// showOlderRelease says why a target has no effect. A new master that waits for the job's history
// takes no size either, but the ranks do not run in its world yet.
func (d *decision) showOlderRelease() {
	summary := d.Stream.Summary
	if d.isHeard() && summary != nil && summary.Phase == "running" && d.Job.Target != d.Job.NodesMax {
		d.targetNotTaken("OlderRelease", "The paceline in the job's image takes no spec.nodes.target.")
	}
}

func (d *decision) targetNotTaken(reason, message string) {
	before := meta.FindStatusCondition(d.Job.Status.Conditions, v1alpha1.ConditionTargetTaken)
	if before == nil || before.Message != clip(message) {
		d.event(true, "TargetNotTaken", message)
	}
	d.setCondition(v1alpha1.ConditionTargetTaken, false, reason, message)
}

// isBeyondTarget says whether the master may not know yet that it needs no such node. A pod that is
// made now would be deleted at once.
func (d *decision) isBeyondTarget(index uint32) bool {
	target := d.Job.Target
	if target == 0 || target >= d.Job.NodesMax || index < uint32(target+d.Job.Spares) {
		return false
	}
	return d.Stream.Summary == nil || d.plan.Size != 0
}

// sizeOf is the number of nodes, without spares, that the job goes for.
func (d *decision) sizeOf(wish *Wish, summary *Summary) uint32 {
	switch {
	case summary != nil && summary.TakesSize && summary.Size != 0:
		return summary.Size
	case wish != nil:
		return wish.Size
	case d.Job.Target != 0:
		return uint32(d.Job.Target)
	}
	return uint32(d.Job.NodesMax)
}
