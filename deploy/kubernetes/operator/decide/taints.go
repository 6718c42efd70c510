package decide

import (
	"slices"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
)

// leavingKeys are taints that say that a Kubernetes node will soon be switched off. They have the
// effect NoSchedule, so no pod is evicted because of them. A key that ends with "/" is a prefix.
var leavingKeys = []string{
	"ToBeDeletedByClusterAutoscaler",
	"karpenter.sh/disrupted",
	"karpenter.sh/disruption",
	"aws-node-termination-handler/",
	"cloud.google.com/impending-node-termination",
	corev1.TaintNodeOutOfService,
}

// Leaving returns the taint that says that a Kubernetes node will be taken away, or nil: one with
// the effect NoExecute, or one of leavingKeys. A node that is not ready or not reachable may come
// back, so those two taints are none: its pods train on while their heartbeats come.
func Leaving(taints []corev1.Taint) *corev1.Taint {
	for i := range taints {
		taint := &taints[i]
		if taint.Key == corev1.TaintNodeNotReady || taint.Key == corev1.TaintNodeUnreachable {
			continue
		}
		isAnnounced := slices.ContainsFunc(leavingKeys, func(key string) bool {
			return taint.Key == key || strings.HasSuffix(key, "/") && strings.HasPrefix(taint.Key, key)
		})
		if taint.Effect == corev1.TaintEffectNoExecute || isAnnounced {
			return taint
		}
	}
	return nil
}

// NoticeOf is why the pod's Kubernetes node will be taken away; "" if it stays, or if the pod
// tolerates that taint. The eviction of a pod that tolerates it for some time is a notice itself.
func NoticeOf(taints []corev1.Taint, tolerations []corev1.Toleration, host string) string {
	rest := slices.DeleteFunc(slices.Clone(taints), func(taint corev1.Taint) bool {
		return slices.ContainsFunc(tolerations, func(t corev1.Toleration) bool {
			return t.ToleratesTaint(logr.Discard(), &taint, true)
		})
	})
	taint := Leaving(rest)
	if taint == nil {
		return ""
	}
	return "its Kubernetes node " + host + " has the taint " + taint.Key + ":" + string(taint.Effect)
}
