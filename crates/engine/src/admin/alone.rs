//! Work with all other workers stopped.

use tidemill_store::gate::ClosedGate;

use crate::access::locks::LockSet;
use crate::access::outcome::Stop;
use crate::access::session_context::SessionCx;
use crate::access::unit::Unit;
use crate::shared::Shared;
use crate::slots::parking::WaitTarget;

/// Runs `work` with all other workers stopped: as a part of the unit at hand, which stopped them,
/// or as a unit of its own. Its effect is journaled before they go on.
pub(crate) fn alone<'k, T>(
    cx: &mut SessionCx<'k, '_>,
    work: impl FnOnce(&mut SessionCx<'k, '_>, &ClosedGate<'_>, &mut Unit<'k>) -> T,
) -> Result<T, Box<Stop>> {
    if let (Some(gate), Some(unit)) = (cx.alone, cx.unit.take()) {
        let result = work(cx, gate, unit);
        cx.unit = Some(unit);
        return Ok(result);
    }
    let shared: &'k Shared = cx.shared;
    let ticket = cx.session.ticket(cx.worker.index);
    let token = shared.token.try_take(ticket, cx.reader.seat());
    let _token = token.ok_or_else(|| Stop::wait(WaitTarget::Token))?;
    let gate = shared.close_gate(cx.reader.seat(), cx.session.gate_attempts());
    let gate = gate.map_err(Stop::wait)?;
    let mut unit = Unit::new(shared, cx.worker, LockSet::alone());
    let result = work(cx, &gate, &mut unit);
    unit.end_command(shared, cx.worker, cx.session.database, &cx.args);
    let served = unit.release(shared, cx.worker).unwrap_or_default();
    debug_assert!(served.is_empty(), "waiters are looked at when the others run again");
    Ok(result)
}
