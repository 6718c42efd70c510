package reconcile

import (
	"context"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"paceline.dev/operator/api/v1alpha1"
	"paceline.dev/operator/command"
	"paceline.dev/operator/decide"
)

const createsAtOnce = 16

// apply carries out the plan. It returns an error only where the API server gave no answer that
// the next decision can use.
func (r *Reconciler) apply(ctx context.Context, job *v1alpha1.ElasticJob, m *memory,
	plan *decide.Plan) error {
	if plan.Status != nil {
		if err := r.writeStatus(ctx, job, m, plan); err != nil {
			return err
		}
		if plan.Raised != 0 {
			return nil // the watch shows the new term, and the next decision makes its master
		}
	}
	for _, step := range []struct {
		isDue bool
		do    func(context.Context, *v1alpha1.ElasticJob, *memory) error
	}{
		{plan.EnsureSecrets, r.ensureSecrets},
		{plan.EnsureService, r.ensureService},
		{plan.CreateMaster, func(ctx context.Context, job *v1alpha1.ElasticJob, m *memory) error {
			return r.createMaster(ctx, job, m, plan)
		}},
	} {
		if step.isDue {
			if err := step.do(ctx, job, m); err != nil {
				m.refuse(wordsOf(err), delayOf(err), r.Now())
				return nil
			}
			m.known.Refused = nil
		}
	}
	for _, name := range plan.Confirm {
		if err := r.confirm(ctx, job, m, name); err != nil {
			return err
		}
	}
	for _, pod := range plan.Deletes {
		if err := r.deletePod(ctx, job, pod); err != nil {
			return err
		}
	}
	r.createNodes(ctx, job, m, plan)
	r.talk(job, m, plan)
	if plan.SetTarget != 0 {
		if err := r.setTarget(ctx, job, m, plan.SetTarget); err != nil {
			return err
		}
	}
	for _, name := range plan.Closes { // late, because an older ClusterRole does not allow it
		if err := r.closeGroup(ctx, job.Namespace, name); err != nil {
			return err
		}
	}
	if plan.DeleteJob {
		err := r.Client.Delete(ctx, job, client.Preconditions{UID: &job.UID},
			client.PropagationPolicy("Background"))
		return client.IgnoreNotFound(err)
	}
	return nil
}

func (r *Reconciler) writeStatus(ctx context.Context, job *v1alpha1.ElasticJob, m *memory,
	plan *decide.Plan) error {
	next := job.DeepCopy()
	next.Status = *plan.Status
	if err := r.Client.Status().Update(ctx, next); err != nil {
		return fmt.Errorf("writing the job's status: %w", err)
	}
	r.noteDropped(job, m, plan.Status, &next.Status)
	// Nobody else may have written in between: the update carries the version that was read.
	*job = *next
	m.known.StatusWritten = r.Now()
	if plan.Raised != 0 {
		m.known.TermRaised = plan.Raised
		m.known.ServiceTerm = 0
	}
	for _, event := range plan.Events {
		kind := corev1.EventTypeNormal
		if event.Warning {
			kind = corev1.EventTypeWarning
		}
		r.Events.Event(job, kind, event.Reason, event.Text)
	}
	return nil
}

// noteDropped notices that the API server did not keep all of a status. Without this note each look
// at the job would find a difference, and write again.
func (r *Reconciler) noteDropped(job *v1alpha1.ElasticJob, m *memory,
	written, kept *v1alpha1.ElasticJobStatus) {
	wasDropped := m.known.Dropped != nil
	m.known.Dropped = nil
	if equality.Semantic.DeepEqual(written, kept) {
		return
	}
	m.known.Dropped = written.DeepCopy()
	if wasDropped {
		return
	}
	r.Log.Info("status_dropped", "job", keyOf(job))
	r.Events.Event(job, corev1.EventTypeWarning, "OldDefinition", "The API server did not keep all of "+
		"the job's status, because its definition of ElasticJob is older than the operator. Apply the "+
		"install.yaml of the operator's release.")
}

func (r *Reconciler) createMaster(ctx context.Context, job *v1alpha1.ElasticJob, m *memory,
	plan *decide.Plan) error {
	pod := command.MasterPod(job, job.Status.MasterTerm, plan.Survivors)
	if plan.MasterAlone {
		command.LeaveGroup(pod)
	}
	if err := r.create(ctx, job, pod); err != nil {
		return err
	}
	m.known.Made[pod.Name] = r.Now()
	return nil
}

// errTaken: the name belongs to something that this job did not make.
type errTaken struct{ kind, name string }

func (e errTaken) Error() string {
	return fmt.Sprintf("the %s %s exists already and does not belong to this job. Delete it, or give "+
		"the job another name.", e.kind, e.name)
}

// create makes the object. One that exists already is as good, if this job is its owner.
func (r *Reconciler) create(ctx context.Context, job *v1alpha1.ElasticJob,
	object client.Object) error {
	err := r.Client.Create(ctx, object)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	found := object.DeepCopyObject().(client.Object)
	if err := r.Reader.Get(ctx, client.ObjectKeyFromObject(object), found); err != nil {
		return err
	}
	if ownerOf(found) != job.UID {
		return errTaken{kindOf(object), object.GetName()}
	}
	return nil
}

func kindOf(object client.Object) string {
	switch object.(type) {
	case *corev1.Pod:
		return "Pod"
	case *corev1.Service:
		return "Service"
	}
	return "Secret"
}

// createNodes makes the pods, several at a time. After a refusal that is not about one pod alone
// the others are not tried: they would be refused too.
func (r *Reconciler) createNodes(ctx context.Context, job *v1alpha1.ElasticJob, m *memory,
	plan *decide.Plan) {
	excluded := make([]string, 0, len(plan.Excluded))
	for _, host := range plan.Excluded {
		excluded = append(excluded, r.hosts.hostnameOf(host))
	}
	var mutex sync.Mutex // of the memory and `refused`
	var group sync.WaitGroup
	slots := make(chan struct{}, createsAtOnce)
	var refused error
	made := 0
	for _, id := range plan.Creates {
		slots <- struct{}{}
		mutex.Lock()
		isOver := refused != nil
		mutex.Unlock()
		if isOver {
			break
		}
		group.Add(1)
		go func() {
			defer group.Done()
			pod := command.NodePod(job, id, excluded)
			if slices.Contains(plan.Alone, id) {
				command.LeaveGroup(pod)
			}
			err := r.create(ctx, job, pod)
			mutex.Lock()
			defer mutex.Unlock()
			<-slots
			switch err.(type) {
			case nil:
				m.known.Made[pod.Name] = r.Now()
				delete(m.known.PodRefused, pod.Name)
				made++
			case errTaken:
				before, wasRefused := m.known.PodRefused[pod.Name]
				next := refusal(nil, err.Error(), 0, r.Now())
				if wasRefused {
					next = refusal(&before, err.Error(), 0, r.Now())
				}
				m.known.PodRefused[pod.Name] = next
			default:
				refused = err
			}
		}()
	}
	group.Wait()
	switch {
	case refused != nil && made > 0:
		m.known.Refused = nil // there was progress: the pauses begin anew
		fallthrough
	case refused != nil:
		m.refuse(wordsOf(refused), delayOf(refused), r.Now())
		r.wake(job)
	case made > 0:
		if m.known.Refused != nil {
			r.wake(job)
		}
		m.known.Refused = nil
	}
}

// confirm asks the API server about a pod that the cache does not have. The pod is gone if the
// server knows the very job and does not know the pod: a server that has lost both, or a wrong one,
// proves nothing.
func (r *Reconciler) confirm(ctx context.Context, job *v1alpha1.ElasticJob, m *memory,
	name string) error {
	key := types.NamespacedName{Namespace: job.Namespace, Name: name}
	var pod corev1.Pod
	err := r.Reader.Get(ctx, key, &pod)
	if err == nil && ownerOf(&pod) == job.UID {
		return nil // the cache is behind
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("asking about the pod %s: %w", name, err)
	}
	var same v1alpha1.ElasticJob
	if err := r.Reader.Get(ctx, client.ObjectKeyFromObject(job), &same); err != nil {
		return client.IgnoreNotFound(err)
	}
	if same.UID == job.UID {
		m.gone(name, lostOf(name))
		r.wake(job)
	}
	return nil
}

func (r *Reconciler) deletePod(ctx context.Context, job *v1alpha1.ElasticJob,
	which decide.Delete) error {
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name = job.Namespace, which.Name
	uid := types.UID(which.UID)
	err := r.Client.Delete(ctx, pod, client.Preconditions{UID: &uid})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // gone already, or another pod by now
	}
	if err != nil {
		return fmt.Errorf("deleting the pod %s: %w", which.Name, err)
	}
	r.Log.Info("pod_deleted", "job", keyOf(job), "pod", which.Name, "why", which.Why)
	return nil
}
