package main

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	fakeclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/karpenter/pkg/controllers/disruption"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"
)

// Command is what one pass of the disruption controller would do.
type Command struct {
	Method string `json:"method"`
	// Nodes are removed, once the claims of the answer have joined.
	Nodes []string `json:"nodes"`
}

// unhurried accepts every command: nothing happens to the cluster while one is made, so that
// looking again after 15 seconds would find the same.
type unhurried struct{}

func (unhurried) Validate(_ context.Context, command disruption.Command, _ time.Duration) (disruption.Command, error) {
	return command, nil
}

// namedMethod is a method of the controller with a name for the answer.
type namedMethod struct {
	disruption.Method
	name string
}

// disrupter is what the disruption controller is made of.
type disrupter struct {
	cloud       *Cloud
	clock       clock.Clock
	cluster     *state.Cluster
	kube        client.Client
	provisioner *provisioning.Provisioner
	recorder    events.Recorder
	queue       *disruption.Queue
}

// disrupted is the answer of one pass: the first command that a method finds, in their order.
func (w *World) disrupted() (Answer, error) {
	ctx := w.context()
	made := Answer{brief: w.Options.Brief}
	d, err := w.disrupter(ctx)
	if err != nil {
		return Answer{}, err
	}
	for _, method := range d.methods() {
		begun, worked := time.Now(), processor()
		commands, candidates, err := d.commands(ctx, method)
		if err != nil {
			return Answer{}, fmt.Errorf("%s: %w", method.name, err)
		}
		made.Passes = append(made.Passes, Pass{
			Method:     method.name,
			Candidates: candidates,
			Seconds:    time.Since(begun).Seconds(),
			Processor:  (processor() - worked).Seconds(),
		})
		if len(commands) > 0 && commands[0].Decision() != disruption.NoOpDecision {
			made.command(method.name, commands[0])
			return made, nil
		}
	}
	return made, nil
}

func (w *World) disrupter(ctx context.Context) (*disrupter, error) {
	made := &disrupter{
		cloud: &Cloud{types: w.types()}, clock: w.clock(), recorder: events.NewRecorder(&record.FakeRecorder{}),
	}
	var err error
	if made.cluster, made.kube, err = w.cluster(ctx, made.cloud, made.clock); err != nil {
		return nil, err
	}
	made.provisioner = provisioning.NewProvisioner(
		made.kube, made.recorder, made.cloud, made.cluster, made.clock, nil, nil)
	made.queue = disruption.NewQueue(made.kube, made.recorder, made.cluster, made.clock, made.provisioner)
	return made, nil
}

func (d *disrupter) methods() []namedMethod {
	shared := disruption.MakeConsolidation(
		d.clock, d.cluster, d.kube, d.provisioner, d.cloud, d.recorder, d.queue)
	validator := disruption.WithValidator(unhurried{})
	return []namedMethod{
		{disruption.NewEmptiness(shared, validator), "emptiness"},
		{disruption.NewDrift(d.kube, d.cluster, d.provisioner, d.recorder, d.clock), "drift"},
		{disruption.NewMultiNodeConsolidation(shared, validator), "multi-node"},
		{disruption.NewSingleNodeConsolidation(shared, validator), "single-node"},
	}
}

// commands asks one method as the controller does, and says how many candidates it had.
func (d *disrupter) commands(ctx context.Context, method namedMethod) ([]disruption.Command, int, error) {
	candidates, totals, err := disruption.GetCandidatesWithTotals(
		ctx, d.cluster, d.kube, d.recorder, d.clock, d.cloud, method.ShouldDisrupt, method.Class(), d.queue, nil)
	if err != nil {
		return nil, 0, err
	}
	if setter, balances := method.Method.(disruption.NodePoolTotalsSetter); balances {
		setter.SetNodePoolTotals(totals)
	}
	budgets, err := disruption.BuildDisruptionBudgetMapping(
		ctx, d.cluster, d.clock, d.kube, d.cloud, d.recorder, method.Reason())
	if err != nil {
		return nil, 0, err
	}
	commands, err := method.ComputeCommands(ctx, budgets, candidates...)
	return commands, len(candidates), err
}

// command takes over what the method decided, with only what is left to its replacements.
func (a *Answer) command(method string, from disruption.Command) {
	made := Command{Method: method}
	for _, each := range from.Candidates {
		made.Nodes = append(made.Nodes, each.Name())
	}
	a.Command = &made
	for _, each := range from.Replacements {
		a.Claims = append(a.Claims, a.claim(each.NodeClaim))
	}
	for _, each := range from.Results.ExistingNodes {
		if len(each.Pods) > 0 {
			a.Existing = append(a.Existing, Existing{
				Name: each.Name(), ProviderID: each.ProviderID(), Pods: names(each.Pods),
			})
		}
	}
}

// clock stands still at the moment that the world is of; where it says none, it is now.
func (w *World) clock() clock.Clock {
	if w.Options.Now.IsZero() {
		return clock.RealClock{}
	}
	return fakeclock.NewFakeClock(w.Options.Now)
}
