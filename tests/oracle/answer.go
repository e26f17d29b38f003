package main

import (
	"context"
	"sort"

	corev1 "k8s.io/api/core/v1"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	requirements "sigs.k8s.io/karpenter/pkg/scheduling"
)

// Answer is one line of output.
type Answer struct {
	Claims   []Claim    `json:"claims,omitempty"`
	Existing []Existing `json:"existing,omitempty"`
	Errors   []PodError `json:"errors,omitempty"`
	// Command is what disruption does, with Claims and Existing as the homes of the evicted pods;
	// none where nothing is left to do.
	Command *Command `json:"command,omitempty"`
	// Passes are the methods of disruption that were asked.
	Passes []Pass `json:"passes,omitempty"`
	// Prepared and Seconds are how long the scheduler took to be made and to decide.
	Prepared float64 `json:"prepared"`
	Seconds  float64 `json:"seconds"`
	// Processor is how long it kept processors busy meanwhile.
	Processor float64 `json:"processor"`
	// Error says that the world could not be answered at all.
	Error string `json:"error,omitempty"`

	brief bool
}

// Pass is how long a method of disruption took.
type Pass struct {
	Method     string  `json:"method"`
	Candidates int     `json:"candidates"`
	Seconds    float64 `json:"seconds"`
	Processor  float64 `json:"processor"`
}

// Claim is a node to be launched.
type Claim struct {
	NodePool      string        `json:"nodePool"`
	NodeClaim     *v1.NodeClaim `json:"nodeClaim,omitempty"`
	InstanceTypes []string      `json:"instanceTypes,omitempty"`
	// Cheapest is the price of the cheapest offering left, which says little of reservations.
	Cheapest  float64  `json:"cheapest"`
	Offerings []Offer  `json:"offerings,omitempty"`
	Pods      []string `json:"pods"`
}

// Offer is an offering that the claim could still be launched with.
type Offer struct {
	InstanceType  string  `json:"instanceType"`
	CapacityType  string  `json:"capacityType"`
	Zone          string  `json:"zone"`
	ReservationID string  `json:"reservationID,omitempty"`
	Price         float64 `json:"price"`
}

// Existing is a node that receives pods.
type Existing struct {
	Name       string   `json:"name"`
	ProviderID string   `json:"providerID"`
	Pods       []string `json:"pods"`
}

// PodError is a pod without a place.
type PodError struct {
	Pod string `json:"pod"`
	// Waits tells a pod that is put off, because a reservation is held, from one that fails.
	Waits   bool   `json:"waits"`
	Message string `json:"message"`
}

// valid leaves out, with the reason, the pods that are refused before any node is looked at.
func (a *Answer) valid(ctx context.Context, by *provisioning.Provisioner, pods []*corev1.Pod) []*corev1.Pod {
	var found []*corev1.Pod
	for _, each := range pods {
		if err := by.Validate(ctx, each); err != nil {
			a.refuse(each, err)
		} else {
			found = append(found, each)
		}
	}
	return found
}

func (a *Answer) refuse(item *corev1.Pod, err error) {
	waits := scheduling.IsReservedOfferingError(err)
	a.Errors = append(a.Errors, PodError{Pod: name(item), Waits: waits, Message: err.Error()})
}

func (a Answer) refusing(pods []*corev1.Pod, err error) Answer {
	for _, each := range pods {
		a.refuse(each, err)
	}
	return a
}

func (a *Answer) take(results scheduling.Results) {
	for _, each := range results.NewNodeClaims {
		a.Claims = append(a.Claims, a.claim(each))
	}
	for _, each := range results.ExistingNodes {
		if len(each.Pods) > 0 {
			taken := Existing{Name: each.Name(), ProviderID: each.ProviderID(), Pods: names(each.Pods)}
			a.Existing = append(a.Existing, taken)
		}
	}
	for item, err := range results.PodErrors {
		a.refuse(item, err)
	}
	sort.Slice(a.Errors, func(i, j int) bool { return a.Errors[i].Pod < a.Errors[j].Pod })
}

func (a *Answer) claim(from *scheduling.NodeClaim) Claim {
	made := Claim{NodePool: from.NodePoolName, Pods: names(from.Pods)}
	for _, kind := range from.InstanceTypeOptions {
		made.InstanceTypes = append(made.InstanceTypes, kind.Name)
		for _, each := range kind.Offerings.Launchable() {
			if from.Requirements.IsCompatible(each.Requirements, requirements.AllowUndefinedWellKnownLabels) {
				made.offer(Offer{
					InstanceType:  kind.Name,
					CapacityType:  each.CapacityType(),
					Zone:          each.Zone(),
					ReservationID: reservation(each.Requirements),
					Price:         each.Price,
				})
			}
		}
	}
	if a.brief {
		made.InstanceTypes, made.Offerings = nil, nil
		return made
	}
	made.NodeClaim = from.ToNodeClaim()
	return made
}

func (c *Claim) offer(found Offer) {
	if len(c.Offerings) == 0 || found.Price < c.Cheapest {
		c.Cheapest = found.Price
	}
	c.Offerings = append(c.Offerings, found)
}

func reservation(of requirements.Requirements) string {
	if found := of.Get(reservationLabel); found.Operator() == corev1.NodeSelectorOpIn {
		return found.Any()
	}
	return ""
}

func names(pods []*corev1.Pod) []string {
	var found []string
	for _, each := range pods {
		found = append(found, name(each))
	}
	sort.Strings(found)
	return found
}

func name(item *corev1.Pod) string { return item.Namespace + "/" + item.Name }
