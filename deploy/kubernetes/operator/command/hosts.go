package command

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// hostVariable tells the agent the name of its Kubernetes node. The master excludes hosts by it.
const hostVariable = "PACELINE_PLATFORM_HOST"

func addHost(train *corev1.Container) {
	isSaid := func(variable corev1.EnvVar) bool { return variable.Name == hostVariable }
	if slices.ContainsFunc(train.Env, isSaid) {
		return
	}
	train.Env = append(train.Env, corev1.EnvVar{Name: hostVariable, ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"}}})
}

// avoid adds to what the template requires of a Kubernetes node. The template's terms are
// alternatives, so each one gets the condition; an empty term matches no node, and stays empty.
func avoid(spec *corev1.PodSpec, hosts []string) {
	hosts = slices.DeleteFunc(slices.Clone(hosts), func(host string) bool {
		return len(validation.IsValidLabelValue(host)) > 0 // no node has it, and the pod is refused
	})
	if len(hosts) == 0 {
		return
	}
	condition := corev1.NodeSelectorRequirement{Key: corev1.LabelHostname,
		Operator: corev1.NodeSelectorOpNotIn, Values: hosts}
	if spec.Affinity == nil {
		spec.Affinity = &corev1.Affinity{}
	}
	if spec.Affinity.NodeAffinity == nil {
		spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	node := spec.Affinity.NodeAffinity
	if node.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		node.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{condition}}}}
		return
	}
	terms := node.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	for i := range terms {
		if len(terms[i].MatchExpressions)+len(terms[i].MatchFields) > 0 {
			terms[i].MatchExpressions = append(terms[i].MatchExpressions, condition)
		}
	}
}
