package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/utils/pod"
)

// World is one line of input.
type World struct {
	Objects       []json.RawMessage `json:"objects"`
	InstanceTypes []InstanceType    `json:"instanceTypes"`
	// WellKnownLabels may be asked for although no pool defines them.
	WellKnownLabels []string `json:"wellKnownLabels"`
	// OfferingLabels are decided by where and how a type is bought; a type without one of the
	// other well known labels does not have it.
	OfferingLabels []string `json:"offeringLabels"`
	Options        Options  `json:"options"`

	objects []client.Object
	pending []*corev1.Pod
}

// Options are the settings of the controller that change what it decides.
type Options struct {
	MinValuesPolicy  string `json:"minValuesPolicy"`
	PreferencePolicy string `json:"preferencePolicy"`
	ReservedCapacity bool   `json:"reservedCapacity"`
	// Workers look at nodes and pools at the same time.
	Workers int `json:"workers"`
	// Brief leaves out of the answer what only a caller who launches claims needs.
	Brief bool `json:"brief"`
	// Disrupt asks for the next command of the disruption controller instead of places for pods.
	Disrupt bool `json:"disrupt"`
	// SpotToSpot is the gate that lets spot nodes be replaced by spot nodes.
	SpotToSpot bool `json:"spotToSpot"`
	// Now is the moment that the world is of.
	Now time.Time `json:"now"`
}

func read(line []byte) (*World, error) {
	world := &World{}
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(world); err != nil {
		return nil, fmt.Errorf("reading the world: %w", err)
	}
	for number, raw := range world.Objects {
		object, err := decoded(raw)
		if err != nil {
			return nil, fmt.Errorf("object %d: %w", number, err)
		}
		world.take(object)
	}
	return world, nil
}

func decoded(raw json.RawMessage) (client.Object, error) {
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(raw, nil, nil)
	if err != nil {
		return nil, err
	}
	known, ok := object.(client.Object)
	if !ok {
		return nil, fmt.Errorf("%T is no object of a cluster", object)
	}
	// The type as it stands in a manifest would make two objects differ that are the same.
	known.GetObjectKind().SetGroupVersionKind(runtimeKind(known))
	return known, nil
}

func (w *World) take(object client.Object) {
	switch item := object.(type) {
	case *corev1.Pod:
		w.takePod(item)
		return
	case *v1.NodePool:
		ready(item)
	}
	w.objects = append(w.objects, lasting(object))
}

// takePod tells pods to be placed from those that run: the former are not put into the cluster,
// because nobody looks for them there and tens of thousands would take minutes.
func (w *World) takePod(item *corev1.Pod) {
	if item.UID == "" {
		item.UID = types.UID(item.Namespace + "/" + item.Name)
	}
	switch {
	case pod.IsScheduled(item):
		w.objects = append(w.objects, lasting(item))
	case pod.IsTerminal(item), pod.IsTerminating(item), pod.IsOwnedByDaemonSet(item), pod.IsOwnedByNode(item):
	case len(item.Spec.SchedulingGates) > 0:
	default:
		w.pending = append(w.pending, item)
	}
}

// ready says of a pool what its controllers would: that it may be used, unless it says otherwise.
func ready(pool *v1.NodePool) {
	if len(pool.Status.Conditions) == 0 {
		pool.StatusConditions().SetTrue(v1.ConditionTypeValidationSucceeded)
		pool.StatusConditions().SetTrue(v1.ConditionTypeNodeClassReady)
	}
}

// lasting gives an object that is being deleted something to wait for, as the cluster demands.
func lasting(object client.Object) client.Object {
	if object.GetDeletionTimestamp() != nil && len(object.GetFinalizers()) == 0 {
		object.SetFinalizers([]string{v1.TerminationFinalizer})
	}
	return object
}

func all[T client.Object](objects []client.Object) []T {
	var found []T
	for _, object := range objects {
		if item, ok := object.(T); ok {
			found = append(found, item)
		}
	}
	return found
}
