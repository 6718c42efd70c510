package command

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"paceline.dev/operator/api/v1alpha1"
)

// spread asks for different Kubernetes nodes for the nodes and spares of a job, as far as there is
// room: a spare beside the node that it replaces would be lost with it. A template that says
// itself which pods belong together or apart is left as it is.
func spread(spec *corev1.PodSpec, job string) {
	if len(spec.TopologySpreadConstraints) > 0 {
		return
	}
	if own := spec.Affinity; own != nil && (own.PodAffinity != nil || own.PodAntiAffinity != nil) {
		return
	}
	spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway,
		LabelSelector: &metav1.LabelSelector{
			MatchLabels: map[string]string{JobLabel: job, RoleLabel: RoleNode}},
	}}
}

// placeMaster takes what the master's part of the spec says. Rules of the template about pods
// beside each other are about nodes: with them the master would take a Kubernetes node for itself.
func placeMaster(spec *corev1.PodSpec, master *v1alpha1.MasterSpec) {
	spec.TopologySpreadConstraints = nil
	if spec.Affinity != nil {
		spec.Affinity.PodAffinity, spec.Affinity.PodAntiAffinity = nil, nil
	}
	if master.NodeSelector != nil {
		spec.NodeSelector = master.NodeSelector
	}
	if master.Affinity != nil {
		spec.Affinity = master.Affinity.DeepCopy()
	}
	if master.Tolerations != nil {
		spec.Tolerations = append([]corev1.Toleration(nil), master.Tolerations...)
	}
	if master.PriorityClassName != "" {
		spec.PriorityClassName = master.PriorityClassName
		spec.Priority, spec.PreemptionPolicy = nil, nil
	}
}
