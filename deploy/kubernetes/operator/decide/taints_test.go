package decide

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestTaintsThatAnnounceTheEndOfAKubernetesNode(t *testing.T) {
	for _, test := range []struct {
		key      string
		effect   corev1.TaintEffect
		isNotice bool
	}{
		{"ToBeDeletedByClusterAutoscaler", corev1.TaintEffectNoSchedule, true},
		{"karpenter.sh/disrupted", corev1.TaintEffectNoSchedule, true},
		{"aws-node-termination-handler/spot-itn", corev1.TaintEffectNoSchedule, true},
		{"cloud.google.com/impending-node-termination", corev1.TaintEffectNoSchedule, true},
		{corev1.TaintNodeOutOfService, corev1.TaintEffectNoExecute, true},
		{"example.org/maintenance", corev1.TaintEffectNoExecute, true},
		{corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute, false},
		{corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute, false},
		{corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule, false},
		{"nvidia.com/gpu", corev1.TaintEffectNoSchedule, false},
		{"DeletionCandidateOfClusterAutoscaler", corev1.TaintEffectPreferNoSchedule, false},
	} {
		taints := []corev1.Taint{{Key: "other", Effect: corev1.TaintEffectNoSchedule},
			{Key: test.key, Effect: test.effect}}
		if got := NoticeOf(taints, nil, "host7"); (got != "") != test.isNotice {
			t.Errorf("%s: %q", test.key, got)
		}
	}
}

// The eviction of a pod that tolerates a taint for some time is the notice.
func TestATaintThatThePodToleratesIsNoNotice(t *testing.T) {
	taints := []corev1.Taint{{Key: "example.org/maintenance", Effect: corev1.TaintEffectNoExecute}}
	hour := int64(3600)
	for name, tolerations := range map[string][]corev1.Toleration{
		"all":          {{Operator: corev1.TolerationOpExists}},
		"for an hour":  {{Key: taints[0].Key, Operator: "Exists", TolerationSeconds: &hour}},
		"of that name": {{Key: taints[0].Key, Operator: "Exists", Effect: taints[0].Effect}},
	} {
		if got := NoticeOf(taints, tolerations, "host7"); got != "" {
			t.Errorf("%s: %q", name, got)
		}
	}
	other := []corev1.Toleration{{Key: "nvidia.com/gpu", Operator: corev1.TolerationOpExists}}
	want := "its Kubernetes node host7 has the taint example.org/maintenance:NoExecute"
	if got := NoticeOf(taints, other, "host7"); got != want {
		t.Errorf("%q", got)
	}
}

func TestOnlyRunningPodsGetANotice(t *testing.T) {
	s := running()
	for i := range s.Nodes {
		s.Nodes[i].Leaving = "its Kubernetes node host7 has the taint x:NoExecute"
	}
	s.Nodes[0].Terminating = true // its launcher passes SIGTERM on
	s.Nodes[1].Phase = Waiting
	plan := Decide(s)
	if len(plan.Notices) != 1 || plan.Notices[0].NodeID != (NodeID{2, 0}) {
		t.Errorf("notices: %+v", plan.Notices)
	}
	if len(plan.Deletes) > 0 {
		t.Errorf("the master's wish deletes pods, and no taint does: %+v", plan.Deletes)
	}
}
