package command

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"paceline.dev/operator/api/v1alpha1"
)

// trainContainer returns the container that runs the script, or nil.
func trainContainer(spec *corev1.PodSpec) *corev1.Container {
	for i := range spec.Containers {
		if spec.Containers[i].Name == v1alpha1.TrainContainer {
			return &spec.Containers[i]
		}
	}
	return nil
}

// Invalid says what is wrong with the spec and how to mend it, where the CRD's rules cannot; "" if
// nothing is.
func Invalid(job *v1alpha1.ElasticJob) string {
	spec := &job.Spec.Template.Spec
	train := trainContainer(spec)
	switch {
	case train == nil:
		return fmt.Sprintf("spec.template has no container named %q. Name the container that runs the "+
			"script so.", v1alpha1.TrainContainer)
	case train.Image == "":
		return "The container train in spec.template has no image."
	case len(train.Command) > 0 || len(train.Args) > 0:
		return "The container train in spec.template has a command or args. The operator sets both. " +
			"Put the script into spec.script, and flags of paceline run into spec.flags."
	case spec.RestartPolicy != "" && spec.RestartPolicy != corev1.RestartPolicyNever:
		return fmt.Sprintf("spec.template has restartPolicy %s. Leave it out: a pod of a node runs once, "+
			"and the next incarnation is a new pod.", spec.RestartPolicy)
	case spec.HostNetwork:
		return "spec.template has hostNetwork. Two masters on one host would need the same port; " +
			"leave it out."
	}
	return ""
}

// NprocPerNode is the number of ranks of a node: as written, else the GPUs of the container train,
// else 1.
func NprocPerNode(job *v1alpha1.ElasticJob) int32 {
	if job.Spec.NprocPerNode != nil {
		return *job.Spec.NprocPerNode
	}
	train := trainContainer(&job.Spec.Template.Spec)
	if train == nil {
		return 1
	}
	count := int64(0)
	for name, quantity := range train.Resources.Limits {
		if isAccelerator(name) {
			count += quantity.Value()
		}
	}
	return int32(max(count, 1))
}

// isAccelerator knows nvidia.com/gpu, amd.com/gpu, gpu.intel.com/i915, habana.ai/gaudi and their
// like.
func isAccelerator(name corev1.ResourceName) bool {
	text := string(name)
	return strings.HasSuffix(text, "/gpu") || strings.HasPrefix(text, "gpu.intel.com/") ||
		strings.HasSuffix(text, "/gaudi") || strings.HasPrefix(text, "nvidia.com/mig-")
}
