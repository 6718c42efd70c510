// Package reconcile is the operator's hands: it gathers what decide.Decide needs, and carries out
// what it says.
package reconcile

import (
	"context"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"paceline.dev/operator/api/v1alpha1"
	"paceline.dev/operator/command"
	"paceline.dev/operator/decide"
	"paceline.dev/operator/master"
	"paceline.dev/operator/series"
)

const (
	podIndex   = "paceline.dev/job"  // of the cache: a pod's job
	hostIndex  = "paceline.dev/host" // and its Kubernetes node
	jobsAtOnce = 8
	wakesMax   = 4096
	// An operator that may not list waits for its rights, and does not end: a Deployment would start
	// it again with pauses of minutes.
	syncTimeout   = 10 * 365 * 24 * time.Hour
	conflictPause = 50 * time.Millisecond
)

// Reconciler looks after all jobs. Client reads from the cache, Reader from the API server.
type Reconciler struct {
	Client client.Client
	Reader client.Reader
	Events record.EventRecorder
	Hub    *master.Hub
	Log    logr.Logger
	Now    func() time.Time

	memories memories
	wakes    chan event.GenericEvent
	hosts    *hosts
	rights   *Rights
}

type request = reconcile.Request

// SetUp starts the watches with the manager.
func SetUp(manager ctrl.Manager, rights *Rights) error {
	r := &Reconciler{
		rights: rights,
		Client: manager.GetClient(), Reader: manager.GetAPIReader(),
		Events: manager.GetEventRecorderFor("paceline-operator"),
		Log:    manager.GetLogger(), Now: time.Now,
		memories: memories{jobs: map[types.NamespacedName]*memory{}},
		wakes:    make(chan event.GenericEvent, wakesMax),
	}
	r.Hub = master.NewHub(r.wakeKey, r.Now)
	if err := metrics.Registry.Register(series.New(r.measured)); err != nil {
		return err
	}
	err := manager.GetFieldIndexer().IndexField(context.Background(), &corev1.Pod{}, podIndex,
		func(object client.Object) []string { return []string{object.GetLabels()[command.JobLabel]} })
	if err != nil {
		return err
	}
	err = manager.GetFieldIndexer().IndexField(context.Background(), &corev1.Pod{}, hostIndex,
		func(object client.Object) []string { return []string{object.(*corev1.Pod).Spec.NodeName} })
	if err != nil {
		return err
	}
	if r.hosts, err = newHosts(manager.GetConfig(), r.Log, r.wakeHost); err != nil {
		return err
	}
	if err := manager.Add(r.hosts); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(manager).
		Named("elasticjob").
		For(&v1alpha1.ElasticJob{}).
		Watches(&corev1.Pod{}, r.podHandler()).
		WatchesRawSource(source.Channel(r.wakes, &handler.EnqueueRequestForObject{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: jobsAtOnce,
			CacheSyncTimeout: syncTimeout}).
		Complete(r)
}

// podHandler leads a pod to its job, and notes a deletion that the API server reported. A deletion
// that was only concluded from a list (DeleteStateUnknown) is no evidence.
func (r *Reconciler) podHandler() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[request]
	add := func(object client.Object, q queue) {
		if key, ok := jobKeyOf(object); ok {
			q.Add(request{NamespacedName: key})
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { add(e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) { add(e.ObjectNew, q) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) {
			if key, ok := jobKeyOf(e.Object); ok && !e.DeleteStateUnknown {
				r.memories.podDeleted(key, ownerOf(e.Object), e.Object.GetName(),
					lostOf(e.Object.GetName()))
			}
			add(e.Object, q)
		},
	}
}

func jobKeyOf(object client.Object) (types.NamespacedName, bool) {
	name := object.GetLabels()[command.JobLabel]
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: name}, name != ""
}

func keyOf(job *v1alpha1.ElasticJob) string { return job.Namespace + "/" + job.Name }

func (r *Reconciler) wake(job *v1alpha1.ElasticJob) { r.wakeKey(keyOf(job)) }

// wakeKey asks for a look at the job. If the queue is full, the job is looked at anyway soon.
func (r *Reconciler) wakeKey(key string) {
	namespace, name, _ := strings.Cut(key, "/")
	job := &v1alpha1.ElasticJob{}
	job.Namespace, job.Name = namespace, name
	select {
	case r.wakes <- event.GenericEvent{Object: job}:
	default:
	}
}

// Reconcile looks at one job. No two calls for one job run at once.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	r.rights.beginWork()
	result, err := r.look(ctx, req)
	if apierrors.IsForbidden(err) {
		// A refused request is retried after rightsInterval. With the queue's own pauses, which grow to
		// 15 minutes, the job would go on waiting long after the missing right was granted.
		r.rights.Ask()
		r.Log.Info("refused", "job", req.String(), "why", err.Error())
		return ctrl.Result{RequeueAfter: rightsInterval}, nil
	}
	return result, err
}

func (r *Reconciler) look(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var job v1alpha1.ElasticJob
	if err := r.Client.Get(ctx, req.NamespacedName, &job); err != nil {
		if apierrors.IsNotFound(err) {
			r.Hub.Conclude(req.Namespace+"/"+req.Name, decide.NoticeDeleted)
			r.memories.forget(req.NamespacedName)
			return ctrl.Result{}, r.closeGroupsOf(ctx, req.NamespacedName, "")
		}
		return ctrl.Result{}, err
	}
	m := r.memories.of(req.NamespacedName, job.UID, r.Now())
	if job.Unreadable != "" {
		return r.tellUnreadable(ctx, &job, m)
	}
	m.unreadable = ""
	if job.Status.State == unreadableReason {
		job.Status.State = "" // of the time before; the decision finds another one
	}
	snapshot, err := r.gather(ctx, &job, m)
	if err != nil {
		return ctrl.Result{}, err
	}
	plan := decide.Decide(snapshot)
	if err := r.apply(ctx, &job, m, &plan); err != nil {
		if apierrors.IsConflict(err) {
			return ctrl.Result{RequeueAfter: conflictPause}, nil
		}
		return ctrl.Result{}, err
	}
	if err := r.closeGroupsOf(ctx, req.NamespacedName, job.UID); err != nil {
		return ctrl.Result{}, err
	}
	if plan.Next.IsZero() {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{RequeueAfter: max(plan.Next.Sub(r.Now()), time.Millisecond)}, nil
}
