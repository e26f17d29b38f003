package main

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/scheduling"
)

// InstanceType is an instance type of a Catalog.
type InstanceType struct {
	Name         string                                    `json:"name"`
	Requirements []v1.NodeSelectorRequirementWithMinValues `json:"requirements"`
	Capacity     corev1.ResourceList                       `json:"capacity"`
	Overhead     corev1.ResourceList                       `json:"overhead"`
	Allocatable  corev1.ResourceList                       `json:"allocatable"`
	Offerings    []Offering                                `json:"offerings"`
}

// Offering is one way to buy an instance type.
type Offering struct {
	Labels map[string]string `json:"labels"`
	Price  float64           `json:"price"`
	// Available is 0 where there is nothing to be had, the free slots of a reservation, or a
	// number that stands for as many as one likes.
	Available     int64  `json:"available"`
	ReservationID string `json:"reservationID"`
}

// wellKnown are the labels that the core knows by itself, kept to start each world from.
var wellKnown = v1.WellKnownLabels.Clone()

// types builds the instance types and makes the world's labels the well known ones.
func (w *World) types() []*cloudprovider.InstanceType {
	v1.WellKnownLabels = wellKnown.Clone().Insert(w.WellKnownLabels...).Insert(reservationLabel)
	var made []*cloudprovider.InstanceType
	for _, each := range w.InstanceTypes {
		made = append(made, w.instanceType(each))
	}
	return made
}

func (w *World) instanceType(from InstanceType) *cloudprovider.InstanceType {
	requirements := scheduling.NewNodeSelectorRequirementsWithMinValues(from.Requirements...)
	requirements.Add(in(corev1.LabelInstanceTypeStable, from.Name))
	var offerings cloudprovider.Offerings
	sold := map[string]sets.Set[string]{}
	for _, each := range from.Offerings {
		for key, value := range each.labels() {
			sold[key] = sets.New(value).Union(sold[key])
		}
		offerings = append(offerings, each.made())
	}
	for key, values := range sold {
		requirements.Add(in(key, sets.List(values)...))
	}
	for _, key := range w.absent(requirements) {
		requirements.Add(scheduling.NewRequirement(key, corev1.NodeSelectorOpDoesNotExist))
	}
	return &cloudprovider.InstanceType{
		Name:         from.Name,
		Requirements: requirements,
		Offerings:    offerings,
		Capacity:     from.Capacity,
		Overhead:     &cloudprovider.InstanceTypeOverhead{KubeReserved: from.Overhead},
	}
}

// absent are the labels that a type could have and has not.
func (w *World) absent(requirements scheduling.Requirements) []string {
	elsewhere := sets.New(w.OfferingLabels...).Delete(reservationLabel)
	elsewhere.Insert(v1.NodePoolLabelKey, corev1.LabelTopologyRegion, awsGroup+"/ec2nodeclass")
	var found []string
	for key := range v1.WellKnownLabels {
		if !requirements.Has(key) && !elsewhere.Has(key) {
			found = append(found, key)
		}
	}
	return found
}

func in(key string, values ...string) *scheduling.Requirement {
	return scheduling.NewRequirement(key, corev1.NodeSelectorOpIn, values...)
}

// labels are those it has; the id of its reservation is one of them.
func (o Offering) labels() map[string]string {
	found := map[string]string{}
	for key, value := range o.Labels {
		found[key] = value
	}
	if o.ReservationID != "" {
		found[reservationLabel] = o.ReservationID
	}
	return found
}

// made is the offering as the scheduler wants it. A full reservation counts as sold out, as it
// did up to core 1.14; 1.15 leaves it to the provider to say so or to let pods wait for a slot.
func (o Offering) made() *cloudprovider.Offering {
	requirements := scheduling.NewLabelRequirements(o.labels())
	capacity := 0
	if o.ReservationID != "" {
		capacity = int(o.Available)
	} else {
		for label := range cloudprovider.ReservedCapacityLabels {
			requirements.Add(scheduling.NewRequirement(label, corev1.NodeSelectorOpDoesNotExist))
		}
	}
	return &cloudprovider.Offering{
		Requirements:        requirements,
		Price:               o.Price,
		Available:           o.Available > 0,
		ReservationCapacity: capacity,
	}
}
