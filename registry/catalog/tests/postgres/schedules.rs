//! Schedules: bounded, recorded, each time given to one caller, and what came of calls.

use chrono::{DateTime, TimeDelta, Utc};
use mfaas_catalog::{
    CatalogError, Claim, ClaimedRun, FUNCTION_SCHEDULES_MAX, NewSchedule, RunEnd, RunOutcome, Schedule,
    TENANT_SCHEDULES_MAX,
};
use mfaas_ident::{ScheduleName, TenantName};

use crate::fixture::{World, actor, function, tenant};

fn name(name: &str) -> ScheduleName {
    ScheduleName::parse(name).unwrap()
}

/// In an hour, whatever the schedule says.
fn in_an_hour(_cron: &str, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    Some(now + TimeDelta::hours(1))
}

impl World {
    pub(crate) async fn schedule(
        &self,
        of: &str,
        called: &str,
        due_at: DateTime<Utc>,
    ) -> Result<Schedule, CatalogError> {
        let name = name(called);
        // Another expression each time, or what is due would stay.
        let cron = due_at.to_rfc3339();
        let new = NewSchedule { name: &name, cron: &cron, body: "body" };
        self.server.set_schedule(&actor(), &tenant(), &function(of), new, |_, _| Some(due_at)).await
    }

    async fn claim_due(&self, busy: &[TenantName]) -> Option<Claim> {
        self.server.claim_schedule(busy, TimeDelta::minutes(10), in_an_hour).await.unwrap()
    }

    async fn claimed(&self) -> ClaimedRun {
        match self.claim_due(&[]).await {
            Some(Claim::Run(run)) => run,
            other => panic!("{other:?}"),
        }
    }

    async fn only_schedule(&self, of: &str) -> Schedule {
        let mut all = self.server.schedules(&tenant(), &function(of)).await.unwrap();
        assert_eq!(all.len(), 1);
        all.remove(0)
    }
}

#[tokio::test]
async fn a_schedule_is_set_replaced_and_deleted_on_record() {
    let world = World::new().await;
    let missing = world.schedule("report", "nightly", Utc::now()).await;
    assert!(matches!(missing, Err(CatalogError::NotFound { what: "function" })), "{missing:?}");
    world.admitted("report", "one").await;
    let soon = Utc::now() + TimeDelta::hours(2);
    let set = world.schedule("report", "nightly", soon).await.unwrap();
    assert_eq!((set.runs, set.last.clone(), set.set_by.as_str()), (0, None, "test"));
    let later = world.schedule("report", "nightly", soon + TimeDelta::days(1)).await.unwrap();
    assert!(later.due_at > set.due_at);
    assert_eq!(world.only_schedule("report").await, later);
    let missing = world.server.schedules(&tenant(), &function("other")).await;
    assert!(matches!(missing, Err(CatalogError::NotFound { what: "function" })), "{missing:?}");

    let delete = async || {
        world.server.delete_schedule(&actor(), &tenant(), &function("report"), &name("nightly")).await
    };
    delete().await.unwrap();
    assert!(matches!(delete().await, Err(CatalogError::NotFound { what: "schedule" })));
    assert_eq!(world.count("SELECT count(*) FROM audit_log WHERE action = 'schedule.set'").await, 2);
    assert_eq!(world.count("SELECT count(*) FROM audit_log WHERE action = 'schedule.deleted'").await, 1);

    world.schedule("report", "nightly", Utc::now()).await.unwrap();
    world.server.delete_function(&actor(), &tenant(), &function("report")).await.unwrap();
    assert_eq!(world.claim_due(&[]).await, None, "a deleted function has none");
}

/// As deployments from a repository do it each time.
#[tokio::test]
async fn a_time_that_is_due_stays_when_the_same_is_said_again() {
    let world = World::new().await;
    world.admitted("report", "one").await;
    let due = Utc::now() - TimeDelta::minutes(1);
    world.schedule("report", "nightly", due).await.unwrap();
    let row = world.only_schedule("report").await;
    let name = name("nightly");
    let new = NewSchedule { name: &name, cron: &row.cron, body: "other" };
    let again =
        world.server.set_schedule(&actor(), &tenant(), &function("report"), new, in_an_hour).await.unwrap();
    assert_eq!((again.due_at, again.body.as_str()), (row.due_at, "other"));
}

#[tokio::test]
async fn a_row_that_cannot_be_read_makes_room_for_others() {
    let world = World::new().await;
    world.admitted("report", "one").await;
    world.schedule("report", "good", Utc::now()).await.unwrap();
    world.schedule("report", "bad", Utc::now() - TimeDelta::hours(1)).await.unwrap();
    world.damage("ALTER TABLE schedules DROP CONSTRAINT schedules_name_valid").await;
    world.damage("UPDATE schedules SET name = 'No Name' WHERE name = 'bad'").await;
    let bad = world.server.claim_schedule(&[], TimeDelta::minutes(10), in_an_hour).await;
    assert!(bad.is_err(), "{bad:?}");
    assert_eq!(world.claimed().await.name.as_str(), "good");
}

#[tokio::test]
async fn a_function_has_so_many_schedules_and_a_tenant_so_many() {
    let world = World::new().await;
    assert_eq!((FUNCTION_SCHEDULES_MAX, TENANT_SCHEDULES_MAX), (16, 256), "the rows below are as many");
    world.admitted("report", "one").await;
    world.admitted("other", "two").await;
    world
        .damage(
            "INSERT INTO schedules (tenant, function, name, cron, body, set_by)
             SELECT 'acme', 'report', 's' || i, '0 3 * * *', '', 'test' FROM generate_series(1, 15) i",
        )
        .await;
    let far = Utc::now() + TimeDelta::days(1);
    world.schedule("report", "last", far).await.unwrap();
    let full = world.schedule("report", "one-more", far).await;
    assert!(
        matches!(&full, Err(CatalogError::Conflict { reason }) if reason.contains("a function has at most 16")),
        "{full:?}"
    );
    world.schedule("report", "last", far).await.unwrap();
    world
        .damage(
            "INSERT INTO functions (tenant, name, last_version) SELECT 'acme', 'f' || i, 1 FROM generate_series(1, 15) i;
             ",
        )
        .await;
    world
        .damage(
            "INSERT INTO schedules (tenant, function, name, cron, body, set_by)
             SELECT 'acme', 'f' || i, 's' || n, '0 3 * * *', '', 'test' FROM generate_series(1, 15) i, generate_series(1, 16) n",
        )
        .await;
    let full = world.schedule("other", "one-more", far).await;
    assert!(
        matches!(&full, Err(CatalogError::Conflict { reason }) if reason.contains("a tenant has at most 256")),
        "{full:?}"
    );
}

#[tokio::test]
async fn a_time_is_claimed_once_and_what_passed_meanwhile_is_left_out() {
    let world = World::new().await;
    world.admitted("report", "one").await;
    assert_eq!(world.claim_due(&[]).await, None);
    let due = Utc::now() - TimeDelta::hours(30);
    world.schedule("report", "nightly", due).await.unwrap();
    assert_eq!(world.claim_due(&[tenant()]).await, None, "of a tenant that has no room");
    let other = world.again().await;
    let (one, two) = tokio::join!(world.claim_due(&[]), other.claim_due(&[]));
    let claimed: Vec<Claim> = [one, two].into_iter().flatten().collect();
    let [Claim::Run(run)] = claimed.as_slice() else { panic!("{claimed:?}") };
    assert_eq!((run.function.as_str(), run.name.as_str(), run.body.as_str()), ("report", "nightly", "body"));
    assert!((run.due_at - due).abs() < TimeDelta::milliseconds(1));
    let row = world.only_schedule("report").await;
    assert!(row.due_at.unwrap() > Utc::now(), "once for all that passed: {row:?}");
    let last = row.last.unwrap();
    assert_eq!((last.due_at, last.end, row.runs), (run.due_at, None, 1));
}

#[tokio::test]
async fn calls_of_one_schedule_do_not_overlap_and_what_is_lost_is_over() {
    let world = World::new().await;
    world.admitted("report", "one").await;
    world.schedule("report", "nightly", Utc::now()).await.unwrap();
    let first = world.claimed().await;
    world.damage("UPDATE schedules SET due_at = now()").await;
    assert_eq!(world.claim_due(&[]).await, Some(Claim::Skipped));
    assert_eq!(world.claim_due(&[]).await, None);
    let answered = RunEnd { outcome: RunOutcome::Answered, status: Some(200), code: None };
    world.server.end_run(&first, &answered).await.unwrap();
    let row = world.only_schedule("report").await;
    assert_eq!((row.runs, row.skipped, row.failures), (1, 1, 0));
    assert!(matches!(row.last.unwrap().end, Some((_, RunOutcome::Answered))));

    world.damage("UPDATE schedules SET due_at = now()").await;
    let second = world.claimed().await;
    world.damage("UPDATE schedules SET due_at = now(), begun_at = now() - interval '11 minutes'").await;
    let third = world.claimed().await;
    let row = world.only_schedule("report").await;
    assert_eq!((row.runs, row.failures), (3, 1), "the second was lost");
    // It comes back late, and changes nothing of the third.
    world.server.end_run(&second, &answered).await.unwrap();
    assert!(world.only_schedule("report").await.last.unwrap().end.is_none());
    let failed = RunEnd { outcome: RunOutcome::Failed, status: Some(500), code: Some("MF0805".to_owned()) };
    world.server.end_run(&third, &failed).await.unwrap();
    let row = world.only_schedule("report").await;
    let last = row.last.unwrap();
    assert_eq!((row.failures, last.status, last.code.as_deref()), (2, Some(500), Some("MF0805")));
}

/// As if somebody deletes it and sets it again while its call is under way.
#[tokio::test]
async fn the_end_of_a_call_is_told_of_no_other_schedule() {
    let world = World::new().await;
    world.admitted("report", "one").await;
    world.schedule("report", "nightly", Utc::now()).await.unwrap();
    let first = world.claimed().await;
    world.server.delete_schedule(&actor(), &tenant(), &function("report"), &name("nightly")).await.unwrap();
    world.schedule("report", "nightly", Utc::now()).await.unwrap();
    let second = world.claimed().await;
    let answered = RunEnd { outcome: RunOutcome::Answered, status: Some(200), code: None };
    world.server.end_run(&first, &answered).await.unwrap();
    assert!(world.only_schedule("report").await.last.unwrap().end.is_none());
    world.server.end_run(&second, &answered).await.unwrap();
    assert!(world.only_schedule("report").await.last.unwrap().end.is_some());
}

#[tokio::test]
async fn what_is_never_due_again_stays_to_be_seen() {
    let world = World::new().await;
    world.admitted("report", "one").await;
    world.schedule("report", "once", Utc::now()).await.unwrap();
    let claimed = world.server.claim_schedule(&[], TimeDelta::minutes(10), |_, _| None).await.unwrap();
    assert!(matches!(claimed, Some(Claim::Run(_))));
    assert_eq!(world.only_schedule("report").await.due_at, None);
    assert_eq!(world.claim_due(&[]).await, None);
}
