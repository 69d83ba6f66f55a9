//! What holds for every optimizer: resuming, groups, refusals.

use burtorch_optim::{
    Adam, AdamOptions, AdamW, Error, Group, Groups, Optimizer, Sgd, SgdOptions, State,
};
use proptest::prelude::*;

type Boxed = Box<dyn Optimizer<f64>>;

/// One of every kind over `groups`.
fn all(groups: &Groups) -> Vec<Boxed> {
    let momentum = SgdOptions {
        momentum: 0.9,
        dampening: 0.1,
        nesterov: false,
    };
    let nesterov = SgdOptions {
        momentum: 0.9,
        dampening: 0.0,
        nesterov: true,
    };
    vec![
        Box::new(Sgd::new(groups.clone(), SgdOptions::default()).unwrap()),
        Box::new(Sgd::new(groups.clone(), momentum).unwrap()),
        Box::new(Sgd::new(groups.clone(), nesterov).unwrap()),
        Box::new(Adam::new(groups.clone(), AdamOptions::default()).unwrap()),
        Box::new(AdamW::new(groups.clone(), AdamOptions::default()).unwrap()),
    ]
}

fn bits(parameters: &[f64]) -> Vec<u64> {
    parameters.iter().map(|p| p.to_bits()).collect()
}

fn adam() -> Adam<f64> {
    Adam::new(Groups::all(1, 0.0).unwrap(), AdamOptions::default()).unwrap()
}

/// The parameter after each of the steps.
fn steps(adam: &mut Adam<f64>, p: &mut [f64], gradients: &[f64]) -> Vec<f64> {
    let mut values = Vec::new();
    for &g in gradients {
        adam.step(p, &[g], 0.1).unwrap();
        values.push(p[0]);
    }
    values
}

#[test]
fn f29_resume_equals_the_straight_run() {
    let gradients = [1.0, -0.5, 0.25, 2.0, -1.0];
    let straight = steps(&mut adam(), &mut [1.0], &gradients);

    let (mut before, mut p) = (adam(), [1.0]);
    steps(&mut before, &mut p, &gradients[..3]);
    let mut after = adam();
    after.restore(before.state()).unwrap();
    let resumed = steps(&mut after, &mut p, &gradients[3..]);

    assert_eq!(bits(&resumed), bits(&straight[3..]));
    assert!((resumed[0] - 0.7750341915).abs() < 1e-10);
    assert!((resumed[1] - 0.7469178629).abs() < 1e-10);
}

#[test]
fn f29_a_dropped_state_or_step_would_show() {
    let gradients = [1.0, -0.5, 0.25, 2.0, -1.0];
    let (mut before, mut p) = (adam(), [1.0]);
    steps(&mut before, &mut p, &gradients[..3]);

    let dropped = steps(&mut adam(), &mut p.clone(), &gradients[3..]);
    assert!((dropped[1] - 0.7126896798).abs() < 1e-10);

    let mut reset = adam();
    reset
        .restore(State {
            step: 0,
            ..before.state()
        })
        .unwrap();
    let reset = steps(&mut reset, &mut p.clone(), &gradients[3..]);
    assert!((reset[1] - 0.6903398860).abs() < 1e-10);
}

#[test]
fn f29_a_foreign_state_is_refused_and_changes_nothing() {
    let mut optimizer = adam();
    steps(&mut optimizer, &mut [1.0], &[1.0]);
    let before = optimizer.state();

    let mut short = before.clone();
    short.buffers.insert("second_moment".to_owned(), vec![]);
    let mut more = before.clone();
    more.buffers.insert("momentum".to_owned(), vec![0.0]);
    let messages = [short, more, State::default()]
        .map(|state| optimizer.restore(state).unwrap_err().to_string());

    let names = r#"["first_moment", "second_moment"]"#;
    assert_eq!(
        messages[0],
        "state of adam: expected 1 numbers in second_moment, found 0"
    );
    assert!(messages[1].starts_with(&format!("state of adam: expected the buffers {names}")));
    assert!(messages[1].contains(r#""momentum""#));
    assert_eq!(
        messages[2],
        format!("state of adam: expected the buffers {names}, found []")
    );
    assert_eq!(optimizer.state(), before);
}

#[test]
fn wrong_lengths_and_rates_are_refused_and_change_nothing() {
    for mut optimizer in all(&Groups::all(2, 0.1).unwrap()) {
        let before = optimizer.state();
        let mut p = [1.0, 2.0];
        let short = optimizer.step(&mut p, &[1.0], 0.1).unwrap_err();
        assert_eq!(short.to_string(), "gradients: expected 2 numbers, found 1");
        assert!(matches!(
            optimizer.step(&mut p[..1], &[1.0, 1.0], 0.1),
            Err(Error::Length {
                what: "parameters",
                ..
            })
        ));
        for rate in [f64::NAN, f64::INFINITY, -0.1] {
            assert!(optimizer.step(&mut p, &[1.0, 1.0], rate).is_err());
        }
        assert_eq!(p, [1.0, 2.0]);
        assert_eq!(optimizer.state(), before);
    }
}

#[test]
fn parameters_in_no_group_are_frozen() {
    let group = Group {
        range: 1..2,
        weight_decay: 0.1,
        learning_rate_scale: 1.0,
    };
    for mut optimizer in all(&Groups::new(3, vec![group]).unwrap()) {
        let mut p = [1.0; 3];
        optimizer.step(&mut p, &[1.0; 3], 0.1).unwrap();
        assert_eq!((p[0], p[2]), (1.0, 1.0));
        assert!(p[1] < 1.0, "{}", optimizer.name());
        let moments = optimizer.state().buffers;
        assert!(
            moments
                .values()
                .all(|moment| moment[0] == 0.0 && moment[2] == 0.0)
        );
    }
}

#[test]
fn an_empty_buffer_is_no_trouble() {
    for mut optimizer in all(&Groups::all(0, 0.1).unwrap()) {
        optimizer.step(&mut [], &[], 0.1).unwrap();
        assert_eq!(optimizer.state().step, 1);
    }
}

/// Gradients of `count` steps over `length` parameters.
fn gradients(length: usize, count: usize) -> impl Strategy<Value = Vec<Vec<f64>>> {
    prop::collection::vec(prop::collection::vec(-2.0..2.0, length), count)
}

proptest! {
    #[test]
    fn f29_restore_at_any_step_is_a_straight_run(gradients in gradients(5, 8), cut in 0_usize..=8) {
        let groups = Groups::all(5, 0.1).unwrap();
        for (mut straight, mut resumed) in all(&groups).into_iter().zip(all(&groups)) {
            let (mut p, mut q) = (vec![1.0; 5], vec![1.0; 5]);
            for (number, g) in gradients.iter().enumerate() {
                if number == cut {
                    resumed.restore(straight.state()).unwrap();
                    q.clone_from(&p);
                }
                straight.step(&mut p, g, 0.05).unwrap();
                if number >= cut {
                    resumed.step(&mut q, g, 0.05).unwrap();
                    prop_assert_eq!(bits(&p), bits(&q));
                }
            }
        }
    }

    #[test]
    fn groups_are_buffers_split_by_hand(gradients in gradients(7, 6), cut in 0_usize..=7) {
        let group = |range, weight_decay, learning_rate_scale| Group { range, weight_decay, learning_rate_scale };
        let both = Groups::new(7, vec![group(0..cut, 0.1, 1.0), group(cut..7, 0.0, 0.5)]).unwrap();
        let first = Groups::all(cut, 0.1).unwrap();
        let second = Groups::all(7 - cut, 0.0).unwrap();
        for ((mut both, mut first), mut second) in all(&both).into_iter().zip(all(&first)).zip(all(&second)) {
            let (mut p, mut q) = (vec![1.0; 7], vec![1.0; 7]);
            for g in &gradients {
                both.step(&mut p, g, 0.25).unwrap();
                first.step(&mut q[..cut], &g[..cut], 0.25).unwrap();
                second.step(&mut q[cut..], &g[cut..], 0.125).unwrap();
            }
            prop_assert_eq!(bits(&p), bits(&q));
        }
    }
}
