package reconcile

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"paceline.dev/operator/api/v1alpha1"
	"paceline.dev/operator/decide"
	"paceline.dev/operator/series"
)

const measuredTimeout = time.Second

// measured returns the jobs that this operator looks after, and what their masters tell of them. An
// operator that does not hold the Lease looks after none. A scrape calls it on its own goroutine.
func (r *Reconciler) measured() []series.Job {
	ctx, cancel := context.WithTimeout(context.Background(), measuredTimeout)
	defer cancel()
	var jobs v1alpha1.ElasticJobList
	if err := r.Client.List(ctx, &jobs, client.UnsafeDisableDeepCopy); err != nil {
		return nil // the cache has not begun
	}
	var all []series.Job
	for i := range jobs.Items {
		job := &jobs.Items[i]
		key := types.NamespacedName{Namespace: job.Namespace, Name: job.Name}
		if r.memories.has(key, job.UID) && isGoing(job) {
			all = append(all, measuredOf(job, r.Hub.Stream(keyOf(job))))
		}
	}
	return all
}

// isGoing says whether the job may train: it has not ended, and is not suspended or deleted.
func isGoing(job *v1alpha1.ElasticJob) bool {
	return job.Status.FinishedAt == nil && job.DeletionTimestamp == nil && job.Unreadable == "" &&
		!meta.IsStatusConditionTrue(job.Status.Conditions, v1alpha1.ConditionSuspended)
}

func measuredOf(job *v1alpha1.ElasticJob, stream decide.Stream) series.Job {
	measured := series.Job{
		Namespace: job.Namespace, Name: job.Name, Wanted: job.Spec.Nodes.Max,
		Pending: job.Status.PendingCount, HasBegun: decide.HasBegun(job.Status.Conditions),
	}
	if job.Spec.Nodes.Target != 0 {
		measured.Wanted = job.Spec.Nodes.Target
	}
	if stream.Term == 0 || stream.Term != job.Status.MasterTerm {
		return measured
	}
	measured.IsHeard = stream.Connected
	if summary := stream.Summary; summary != nil {
		measured.Measures = summary.Measures
		if summary.TakesSize && summary.Size != 0 {
			measured.Wanted = int32(summary.Size)
		}
	}
	return measured
}
