package command

import (
	"testing"

	"paceline.dev/operator/decide"
)

func TestTheQueueOfTheJobAdmitsTheSmallestWorldAsOneGroup(t *testing.T) {
	job := train() // at least 6 nodes
	if labels := MasterPod(job, 1, 0).Labels; labels[QueueGroupLabel] != "" {
		t.Errorf("without a queue: %v", labels)
	}
	job.Labels = map[string]string{QueueLabel: "team-a", queuePrefix + "priority-class": "high",
		"mine": "x"}
	job.Status.StartTerm = 3
	master := MasterPod(job, 4, 0)
	if master.Labels[QueueLabel] != "team-a" || master.Labels[QueueGroupLabel] != "train-3" ||
		master.Labels[queuePrefix+"priority-class"] != "high" || master.Labels["mine"] != "" ||
		master.Annotations[QueueGroupCount] != "7" {
		t.Errorf("master: %v %v", master.Labels, master.Annotations)
	}
	later := NodePod(job, decide.NodeID{Index: 5, Incarnation: 2}, nil)
	if later.Labels[QueueGroupLabel] != "train-3" {
		t.Errorf("node5: %v", later.Labels)
	}
	beyond := NodePod(job, decide.NodeID{Index: 6}, nil)
	if beyond.Labels[QueueLabel] != "team-a" || beyond.Labels[QueueGroupLabel] != "" ||
		beyond.Annotations[QueueGroupCount] != "" {
		t.Errorf("node6: %v %v", beyond.Labels, beyond.Annotations)
	}
	job.Spec.Template.Labels = map[string]string{QueueLabel: "team-b", QueueGroupLabel: "mine"}
	own := NodePod(job, decide.NodeID{}, nil)
	if own.Labels[QueueLabel] != "team-b" || own.Labels[QueueGroupLabel] != "mine" ||
		own.Annotations[QueueGroupCount] != "" {
		t.Errorf("the template's own: %v %v", own.Labels, own.Annotations)
	}
}
