package command

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"paceline.dev/operator/api/v1alpha1"
)

// Names of Kueue's plain pods (https://kueue.sigs.k8s.io/docs/tasks/run/plain_pods/).
const (
	queuePrefix     = "kueue.x-k8s.io/"
	QueueLabel      = queuePrefix + "queue-name"
	QueueGroupLabel = queuePrefix + "pod-group-name"
	QueueGroupCount = queuePrefix + "pod-group-total-count"
)

// addQueue puts the pod into the job's queue. The master and the nodes of the smallest world are one
// group, which is admitted whole: a master without nodes would hold room for nothing. Nodes beyond
// these are admitted one by one. A later pod of the same node takes its place in the group.
func addQueue(job *v1alpha1.ElasticJob, pod *corev1.Pod, isInGroup bool) {
	for name, value := range job.Labels {
		if _, isSaid := pod.Labels[name]; strings.HasPrefix(name, queuePrefix) && !isSaid {
			pod.Labels[name] = value
		}
	}
	_, isQueued := pod.Labels[QueueLabel]
	_, isGrouped := pod.Labels[QueueGroupLabel]
	if !isQueued || isGrouped || !isInGroup || job.Status.StartTerm == 0 {
		return
	}
	pod.Labels[QueueGroupLabel] = fmt.Sprintf("%s-%d", job.Name, job.Status.StartTerm)
	pod.Annotations[QueueGroupCount] = strconv.Itoa(1 + int(job.Spec.Nodes.Min))
}
