package command

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"paceline.dev/operator/api/v1alpha1"
	"paceline.dev/operator/decide"
)

func TestNodesOfAJobAreSpread(t *testing.T) {
	pod := NodePod(train(), decide.NodeID{Index: 3}, nil)
	rules := pod.Spec.TopologySpreadConstraints
	if len(rules) != 1 || rules[0].TopologyKey != "kubernetes.io/hostname" || rules[0].MaxSkew != 1 ||
		rules[0].WhenUnsatisfiable != corev1.ScheduleAnyway {
		t.Fatalf("rules: %+v", rules)
	}
	want := rules[0].LabelSelector.MatchLabels
	if len(want) != 2 || want[JobLabel] != "train" || want[RoleLabel] != RoleNode {
		t.Errorf("labels: %v", want)
	}
	for name, value := range want {
		if pod.Labels[name] != value {
			t.Errorf("the pod itself does not count: %v", pod.Labels)
		}
	}
	if got := MasterPod(train(), 1, 0).Spec.TopologySpreadConstraints; got != nil {
		t.Errorf("the master's: %+v", got)
	}
}

func TestTheTemplatesOwnPlacementWins(t *testing.T) {
	job := train()
	own := []corev1.TopologySpreadConstraint{{MaxSkew: 2, TopologyKey: "rack"}}
	job.Spec.Template.Spec.TopologySpreadConstraints = own
	got := NodePod(job, decide.NodeID{}, nil).Spec.TopologySpreadConstraints
	if len(got) != 1 || got[0].TopologyKey != "rack" {
		t.Errorf("rules: %+v", got)
	}
	job = train()
	job.Spec.Template.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{}}
	if got := NodePod(job, decide.NodeID{}, nil).Spec.TopologySpreadConstraints; got != nil {
		t.Errorf("rules beside an affinity: %+v", got)
	}
}

func TestTheMasterIsPlacedByItsOwnRules(t *testing.T) {
	job := train()
	template := &job.Spec.Template.Spec
	template.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{},
		PodAntiAffinity: &corev1.PodAntiAffinity{}}
	template.Tolerations = []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}}
	template.PriorityClassName = "low"
	inherited := MasterPod(job, 1, 0).Spec
	if inherited.Affinity.NodeAffinity == nil || inherited.Affinity.PodAntiAffinity != nil ||
		inherited.Tolerations[0].Key != "gpu" || inherited.PriorityClassName != "low" {
		t.Errorf("inherited: %+v", inherited)
	}
	if NodePod(job, decide.NodeID{}, nil).Spec.Affinity.PodAntiAffinity == nil {
		t.Error("a node lost the template's rule")
	}
	job.Spec.Master = v1alpha1.MasterSpec{Tolerations: []corev1.Toleration{{Key: "control"}},
		PriorityClassName: "high", Affinity: &corev1.Affinity{PodAffinity: &corev1.PodAffinity{}}}
	own := MasterPod(job, 1, 0).Spec
	if own.Affinity.PodAffinity == nil || own.Affinity.NodeAffinity != nil ||
		own.Tolerations[0].Key != "control" || own.PriorityClassName != "high" {
		t.Errorf("own: %+v", own)
	}
}

func TestTheTemplateMayAskForAToken(t *testing.T) {
	job := train()
	if got := NodePod(job, decide.NodeID{}, nil).Spec.AutomountServiceAccountToken; *got {
		t.Error("a token was not asked for")
	}
	yes := true
	job.Spec.Template.Spec.AutomountServiceAccountToken = &yes
	if got := NodePod(job, decide.NodeID{}, nil).Spec.AutomountServiceAccountToken; !*got {
		t.Error("a token was asked for")
	}
}
