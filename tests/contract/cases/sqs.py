"""Queues."""

from tests.contract.case import case, fresh_name
from tests.contract.doors import Door, refusal

NO_QUEUE = ("AWS.SimpleQueueService.NonExistentQueue", 400)


def queue(door: Door) -> str:
    return str(door.ask("sqs", "CreateQueue", QueueName=fresh_name("queue"))["QueueUrl"])


@case()
def a_message_is_received_and_deleted(door: Door) -> None:
    where = queue(door)
    body = '{"detail-type": "EC2 Spot Instance Interruption Warning", "x": "<&>"}'
    sent = door.ask("sqs", "SendMessage", QueueUrl=where, MessageBody=body)
    (got,) = door.ask("sqs", "ReceiveMessage", QueueUrl=where, VisibilityTimeout=0)["Messages"]
    assert (got["MessageId"], got["Body"]) == (sent["MessageId"], body)
    assert got["MD5OfBody"] == sent["MD5OfMessageBody"]
    (again,) = door.ask("sqs", "ReceiveMessage", QueueUrl=where)["Messages"]
    door.ask("sqs", "DeleteMessage", QueueUrl=where, ReceiptHandle=again["ReceiptHandle"])
    attributes = door.ask(
        "sqs", "GetQueueAttributes", QueueUrl=where, AttributeNames=["ApproximateNumberOfMessages"]
    )
    assert attributes["Attributes"] == {"ApproximateNumberOfMessages": "0"}


@case()
def a_message_in_hand_is_not_seen_by_others(door: Door) -> None:
    where = queue(door)
    door.ask("sqs", "SendMessage", QueueUrl=where, MessageBody="once")
    assert "Messages" in door.ask("sqs", "ReceiveMessage", QueueUrl=where, VisibilityTimeout=60)
    assert "Messages" not in door.ask("sqs", "ReceiveMessage", QueueUrl=where)


@case()
def several_messages_come_at_once(door: Door) -> None:
    where = queue(door)
    bodies = {f"message {number}" for number in range(5)}
    for body in bodies:
        door.ask("sqs", "SendMessage", QueueUrl=where, MessageBody=body)
    answer = door.ask("sqs", "ReceiveMessage", QueueUrl=where, MaxNumberOfMessages=10)
    assert {each["Body"] for each in answer["Messages"]} == bodies


@case()
def the_time_of_sending_is_told_to_those_who_ask(door: Door) -> None:
    where = queue(door)
    door.ask("sqs", "SendMessage", QueueUrl=where, MessageBody="when")
    (got,) = door.ask("sqs", "ReceiveMessage", QueueUrl=where, AttributeNames=["SentTimestamp"])[
        "Messages"
    ]
    assert got["Attributes"]["SentTimestamp"].isdigit()


@case()
def an_empty_queue_gives_nothing_after_the_wait(door: Door) -> None:
    assert door.ask("sqs", "ReceiveMessage", QueueUrl=queue(door), WaitTimeSeconds=1) == {}


@case()
def a_queue_that_does_not_exist_is_an_error(door: Door) -> None:
    assert refusal(door, "sqs", "GetQueueUrl", QueueName="none") == NO_QUEUE
    where = queue(door)
    door.ask("sqs", "DeleteQueue", QueueUrl=where)
    assert refusal(door, "sqs", "SendMessage", QueueUrl=where, MessageBody="x") == NO_QUEUE


@case()
def a_queue_has_one_address(door: Door) -> None:
    where = queue(door)
    name = where.rpartition("/")[2]
    assert door.ask("sqs", "GetQueueUrl", QueueName=name)["QueueUrl"] == where
    assert door.ask("sqs", "CreateQueue", QueueName=name)["QueueUrl"] == where
