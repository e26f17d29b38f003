package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/operator/injection"
	"sigs.k8s.io/karpenter/pkg/operator/options"
)

// solved is the answer of one provisioning loop.
func (w *World) solved() (Answer, error) {
	begun := time.Now()
	ctx := w.context()
	cloud := &Cloud{types: w.types()}
	watch, recorder := w.clock(), events.NewRecorder(&record.FakeRecorder{})
	cluster, kube, err := w.cluster(ctx, cloud, watch)
	if err != nil {
		return Answer{}, err
	}
	provisioner := provisioning.NewProvisioner(kube, recorder, cloud, cluster, watch, nil, nil)
	nodes := cluster.DeepCopyNodes()
	leaving, err := nodes.Deleting().CurrentlyReschedulablePods(ctx, kube, watch, recorder)
	if err != nil {
		return Answer{}, fmt.Errorf("pods of nodes being deleted: %w", err)
	}
	made := Answer{brief: w.Options.Brief}
	pods := append(made.valid(ctx, provisioner, w.pending), leaving...)
	scheduler, err := provisioner.NewScheduler(ctx, pods, nodes.Active(), uids(leaving), w.options()...)
	if errors.Is(err, provisioning.ErrNodePoolsNotFound) {
		return made.refusing(pods, err), nil
	}
	if err != nil {
		return Answer{}, fmt.Errorf("preparing: %w", err)
	}
	made.Prepared = time.Since(begun).Seconds()
	begun, worked := time.Now(), processor()
	results, err := scheduler.Solve(ctx, pods)
	made.Seconds, made.Processor = time.Since(begun).Seconds(), (processor() - worked).Seconds()
	if err != nil {
		return Answer{}, fmt.Errorf("solving: %w", err)
	}
	made.take(results.TruncateInstanceTypes(ctx, scheduling.MaxInstanceTypes))
	return made, nil
}

func (w *World) context() context.Context {
	gates := options.DefaultFeatureGates()
	gates.ReservedCapacity = w.Options.ReservedCapacity
	gates.SpotToSpotConsolidation = w.Options.SpotToSpot
	settings := &options.Options{
		PreferencePolicy:  options.PreferencePolicy(w.Options.PreferencePolicy),
		MinValuesPolicy:   options.MinValuesPolicy(w.Options.MinValuesPolicy),
		IgnoreDRARequests: true,
		FeatureGates:      gates,
	}
	return options.ToContext(injection.WithControllerName(context.Background(), "provisioner"), settings)
}

// options are those with which the provisioner itself makes its scheduler.
func (w *World) options() []scheduling.Options {
	found := []scheduling.Options{
		scheduling.DisableReservedCapacityFallback,
		scheduling.NumConcurrentReconciles(w.Options.Workers),
		scheduling.MinValuesPolicy(options.MinValuesPolicy(w.Options.MinValuesPolicy)),
	}
	if w.Options.PreferencePolicy == string(options.PreferencePolicyIgnore) {
		found = append(found, scheduling.IgnorePreferences)
	}
	return found
}

// cluster is the state that the controller would have gathered by watching.
func (w *World) cluster(ctx context.Context, cloud *Cloud, watch clock.Clock) (*state.Cluster, client.Client, error) {
	stored := fake.NewClientBuilder().
		WithScheme(scheme.Scheme).
		WithObjects(w.objects...).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(object client.Object) []string {
			return []string{object.(*corev1.Pod).Spec.NodeName}
		}).
		Build()
	kube := unscoped{stored}
	cluster := state.NewCluster(watch, kube, cloud)
	for _, claim := range all[*v1.NodeClaim](w.objects) {
		cluster.UpdateNodeClaim(claim)
	}
	for _, node := range all[*corev1.Node](w.objects) {
		if err := cluster.UpdateNode(ctx, node); err != nil {
			return nil, nil, fmt.Errorf("node %s: %w", node.Name, err)
		}
	}
	for _, item := range all[*corev1.Pod](w.objects) {
		// A pod of a node that nobody knows is none of the scheduler's business.
		if err := cluster.UpdatePod(ctx, item); client.IgnoreNotFound(err) != nil {
			return nil, nil, fmt.Errorf("pod %s: %w", item.Name, err)
		}
	}
	for _, daemons := range all[*appsv1.DaemonSet](w.objects) {
		if err := cluster.UpdateDaemonSet(ctx, daemons); err != nil {
			return nil, nil, fmt.Errorf("daemonset %s: %w", daemons.Name, err)
		}
	}
	return cluster, kube, nil
}

// unscoped forgives a namespace in the name of a volume, which has none: the API server does, and
// the scheduler relies on it.
type unscoped struct{ client.WithWatch }

func (u unscoped) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	if _, is := into.(*corev1.PersistentVolume); is {
		key.Namespace = ""
	}
	return u.WithWatch.Get(ctx, key, into, options...)
}

// processor is the time that this process has kept processors busy.
func processor() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		panic(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func uids(pods []*corev1.Pod) sets.Set[types.UID] {
	found := sets.New[types.UID]()
	for _, item := range pods {
		found.Insert(item.UID)
	}
	return found
}
