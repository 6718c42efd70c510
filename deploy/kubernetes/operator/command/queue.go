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
	// Pods of one role of a group take each other's places. Kueue's own value is a digest of the pod,
	// in which a node that avoids an excluded host is another role than the node that it replaces.
	queueRole = queuePrefix + "role-hash"
	// QueueGroupRetriable is "false" on a pod of a group that gets no further pod. Then Kueue counts
	// the group as finished when its pods have ended. Otherwise it counts their room until as many
	// pods as the group has ended with exit code 0, and keeps ended pods from being deleted.
	QueueGroupRetriable = queuePrefix + "retriable-in-group"

	uidLetters = 8 // of the job, in the name of its group
)

// QueueGroup is the name of the group that the queue of the job admits whole; "": there is none. The
// UID keeps a job apart from an earlier one of that name, whose group Kueue may still know.
func QueueGroup(job *v1alpha1.ElasticJob) string {
	_, isQueued := job.Labels[QueueLabel]
	_, isTemplateQueued := job.Spec.Template.Labels[QueueLabel]
	_, isGrouped := job.Spec.Template.Labels[QueueGroupLabel]
	if !isQueued && !isTemplateQueued || isGrouped || job.Status.StartTerm == 0 {
		return ""
	}
	uid := string(job.UID)
	return fmt.Sprintf("%s-%d-%s", job.Name, job.Status.StartTerm, uid[:min(len(uid), uidLetters)])
}

// OpenGroup is the group of the pod that Kueue waits to get further pods of; "": there is none.
func OpenGroup(pod *corev1.Pod) string {
	if pod.Annotations[QueueGroupRetriable] == "false" {
		return ""
	}
	return pod.Labels[QueueGroupLabel]
}

// LeaveGroup makes the pod one that the queue admits alone.
func LeaveGroup(pod *corev1.Pod) {
	delete(pod.Labels, QueueGroupLabel)
	delete(pod.Annotations, QueueGroupCount)
	delete(pod.Annotations, queueRole)
}

// addQueue puts the pod into the job's queue. The master and the nodes of the smallest world are one
// group, which is admitted whole: a master without nodes would hold room for nothing. Nodes beyond
// these are admitted one by one. A later pod of the same node takes its place in the group.
func addQueue(job *v1alpha1.ElasticJob, pod *corev1.Pod, isInGroup bool) {
	for name, value := range job.Labels {
		if _, isSaid := pod.Labels[name]; strings.HasPrefix(name, queuePrefix) && !isSaid {
			pod.Labels[name] = value
		}
	}
	group := QueueGroup(job)
	if group == "" || !isInGroup {
		return
	}
	pod.Labels[QueueGroupLabel] = group
	pod.Annotations[QueueGroupCount] = strconv.Itoa(1 + int(job.Spec.Nodes.Min))
	pod.Annotations[queueRole] = pod.Labels[RoleLabel]
}
