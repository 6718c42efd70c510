package command

import (
	"testing"

	"paceline.dev/operator/decide"
)

func TestTheQueueOfTheJobAdmitsTheSmallestWorldAsOneGroup(t *testing.T) {
	job := train() // at least 6 nodes
	if labels := MasterPod(job, 1, 0).Labels; labels[QueueGroupLabel] != "" || QueueGroup(job) != "" {
		t.Errorf("without a queue: %v", labels)
	}
	job.Labels = map[string]string{QueueLabel: "team-a", queuePrefix + "priority-class": "high",
		"mine": "x"}
	job.Status.StartTerm = 3
	job.UID = "3f2a9c1e-0000"
	const group = "train-3-3f2a9c1e"
	master := MasterPod(job, 4, 0)
	if master.Labels[QueueLabel] != "team-a" || master.Labels[QueueGroupLabel] != group ||
		master.Labels[queuePrefix+"priority-class"] != "high" || master.Labels["mine"] != "" ||
		master.Annotations[QueueGroupCount] != "7" {
		t.Errorf("master: %v %v", master.Labels, master.Annotations)
	}
	if master.Annotations[queueRole] != RoleMaster {
		t.Errorf("the master's role: %v", master.Annotations)
	}
	later := NodePod(job, decide.NodeID{Index: 5, Incarnation: 2}, []string{"a-bad-host"})
	if later.Labels[QueueGroupLabel] != group || later.Annotations[queueRole] != RoleNode {
		t.Errorf("node5: %v %v", later.Labels, later.Annotations)
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
