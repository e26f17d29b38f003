package main

import (
	"context"

	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
)

const (
	awsGroup         = "karpenter.k8s.aws"
	reservationLabel = awsGroup + "/capacity-reservation-id"
)

// NodeClass stands for every EC2NodeClass: the scheduler only asks whether a pool's class is of a
// kind that its cloud knows.
type NodeClass struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              map[string]any `json:"spec,omitempty"`
	Status            map[string]any `json:"status,omitempty"`
	conditions        []status.Condition
}

func (n *NodeClass) DeepCopyObject() runtime.Object {
	made := &NodeClass{TypeMeta: n.TypeMeta, Spec: n.Spec, Status: n.Status, conditions: n.conditions}
	n.ObjectMeta.DeepCopyInto(&made.ObjectMeta)
	return made
}

func (n *NodeClass) GetConditions() []status.Condition      { return n.conditions }
func (n *NodeClass) SetConditions(found []status.Condition) { n.conditions = found }
func (n *NodeClass) StatusConditions(options ...status.ForOption) status.ConditionSet {
	return status.NewReadyConditions().For(n, options...)
}

// prepareLabels tells the scheduler what the AWS provider tells it when it starts.
func prepareLabels() {
	kind := schema.GroupVersionKind{Group: awsGroup, Version: "v1", Kind: "EC2NodeClass"}
	metav1.AddToGroupVersion(scheme.Scheme, kind.GroupVersion())
	scheme.Scheme.AddKnownTypeWithName(kind, &NodeClass{})
	cloudprovider.ReservationIDLabel = reservationLabel
	cloudprovider.ReservedCapacityLabels.Insert(reservationLabel)
	v1.RestrictedLabelDomains.Insert(awsGroup)
	v1.NormalizedLabels["topology.ebs.csi.aws.com/zone"] = corev1.LabelTopologyZone
}

func runtimeKind(object client.Object) schema.GroupVersionKind {
	kind, err := apiutil.GVKForObject(object, scheme.Scheme)
	if err != nil {
		panic(err)
	}
	return kind
}

// Cloud sells the same instance types to every pool. It can do nothing else: a method that is not
// here is never called while pods are placed.
type Cloud struct {
	cloudprovider.CloudProvider
	types []*cloudprovider.InstanceType
}

func (c *Cloud) Name() string { return "oracle" }

func (c *Cloud) GetSupportedNodeClasses() []status.Object { return []status.Object{&NodeClass{}} }

func (c *Cloud) GetInstanceTypes(context.Context, *v1.NodePool) ([]*cloudprovider.InstanceType, error) {
	return c.types, nil
}
